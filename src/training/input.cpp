#include "training/input.h"

#include "slipstream/core/error.h"

namespace slipstream {

std::optional<Cut> parse_cut(const std::string& input) {
  if (input == "loader") return std::nullopt;
  if (input == "host") return Cut{"collate", kCachedBatches};
  if (input == "device") return Cut{"copy", kCachedBatches};
  throw Refused(unknown_name("input", input, {"loader", "host", "device"}));
}

}  // namespace slipstream
