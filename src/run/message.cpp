#include "run/message.h"

#include <c10/util/Exception.h>

namespace slipstream {

std::string message_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return torch != nullptr ? torch->what_without_backtrace() : error.what();
}

}  // namespace slipstream
