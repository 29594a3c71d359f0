#pragma once

#include <cstddef>

namespace slipstream {

/// The largest value of a count in a plan; the smallest is 1.
inline constexpr std::size_t kMostOfAnything = 4096;
/// The largest number of threads inside an operation. Each further thread costs time in every
/// operation.
inline constexpr std::size_t kMostIntraOpThreads = 256;

}  // namespace slipstream
