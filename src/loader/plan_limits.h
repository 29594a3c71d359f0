#pragma once

#include <cstddef>

namespace slipstream {

/// Counts in a plan go from 1 to this.
inline constexpr std::size_t kMostOfAnything = 4096;
/// Threads inside an operation: more cost time in every operation.
inline constexpr std::size_t kMostIntraOpThreads = 256;

}  // namespace slipstream
