#pragma once

#include <exception>
#include <string>

#include "slipstream/core/error.h"

namespace slipstream {

/// Returns what `call` throws: "Refused: MESSAGE", "Error: MESSAGE", "other: MESSAGE" or "nothing".
template <typename Call>
std::string thrown_by(Call call) {
  try {
    call();
  } catch (const Refused& error) {
    return std::string("Refused: ") + error.what();
  } catch (const Error& error) {
    return std::string("Error: ") + error.what();
  } catch (const std::exception& error) {
    return std::string("other: ") + error.what();
  }
  return "nothing";
}

}  // namespace slipstream
