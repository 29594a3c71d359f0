#pragma once

#include <cstddef>
#include <cstdint>

namespace slipstream {

/// Bytes that this process can still allocate without swapping: the smaller one of what the machine
/// and the process's control group have left. 0: unknown.
std::uint64_t free_memory_bytes();

/// Size of the CPU's largest cache; 32 MiB if the system does not report it.
std::size_t last_level_cache_bytes();

}  // namespace slipstream
