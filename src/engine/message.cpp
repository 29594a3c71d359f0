#include "engine/message.h"

#include <c10/util/Exception.h>

#include "core/plain_message.h"

namespace slipstream {

std::string describe_error(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const bool has_backtrace = torch != nullptr && !is_out_of_memory(error);
  return has_backtrace ? torch->what_without_backtrace() : plain_message(error);
}

}  // namespace slipstream
