#pragma once

#include <string>
#include <string_view>

#include "slipstream/transforms/chain.h"
#include "support/thrown.h"

namespace slipstream {

/// Returns the text of a file with these transforms.
inline std::string with(const std::string& transforms) {
  return R"({"version": 1, "transforms": [)" + transforms + "]}";
}

inline std::string refusal(std::string_view text) {
  return thrown_by([&] { parse_chain(text); });
}

inline std::string chain_refusal(const std::string& transforms) {
  return refusal(with(transforms));
}

}  // namespace slipstream
