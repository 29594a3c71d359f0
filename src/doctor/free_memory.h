#pragma once

#include <cstddef>
#include <cstdint>

namespace slipstream {

/// Bytes that this process may still take without anything being swapped out: of the machine and
/// of its control group. 0: unknown.
std::uint64_t free_memory_bytes();

/// Of the largest cache of the CPU; a guess where it does not tell.
std::size_t last_level_cache_bytes();

}  // namespace slipstream
