#include "doctor/free_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace slipstream {
namespace {

constexpr std::size_t kLikelyCacheBytes = std::size_t{32} << 20;

std::uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  std::uint64_t kibibytes = 0;
  while (file >> key >> kibibytes) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return kibibytes << 10;
  }
  return 0;
}

/// Bytes of cached files that the kernel drops first when the control group is short of memory.
/// They count as used in memory.current, although a process can still get this memory.
std::uint64_t reclaimable_in_group() {
  std::ifstream file("/sys/fs/cgroup/memory.stat");
  std::string key;
  std::uint64_t bytes = 0;
  while (file >> key >> bytes)
    if (key == "inactive_file") return bytes;
  return 0;
}

/// Bytes that are left in the control group, or the largest number if it has no limit.
std::uint64_t left_in_group() {
  std::uint64_t most = 0, used = 0;
  if (!(std::ifstream("/sys/fs/cgroup/memory.max") >> most) ||
      !(std::ifstream("/sys/fs/cgroup/memory.current") >> used))
    return std::numeric_limits<std::uint64_t>::max();
  used -= std::min(used, reclaimable_in_group());
  return most - std::min(most, used);
}

}  // namespace

std::uint64_t free_memory_bytes() { return std::min(available_bytes(), left_in_group()); }

std::size_t last_level_cache_bytes() {
  const long bytes = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE));
  return bytes > 0 ? static_cast<std::size_t>(bytes) : kLikelyCacheBytes;
}

}  // namespace slipstream
