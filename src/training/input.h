#pragma once

#include <optional>
#include <string>

#include "slipstream/engine/trainer.h"

namespace slipstream {

inline constexpr std::size_t kCachedBatches = 4;

/// Returns the cut for an input: "loader", "host" or "device". Throws Refused for any other name.
std::optional<Cut> parse_cut(const std::string& input);

}  // namespace slipstream
