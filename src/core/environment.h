#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// A GPU as its driver describes it. Filled in by the caller: reports know no CUDA.
struct GpuInfo {
  std::string name;
  std::string driver;              ///< driver version
  std::string runtime;             ///< CUDA runtime version
  std::string compute_capability;  ///< "9.0"
  std::uint64_t memory_bytes = 0;
};

/// Where and by what a report was made. Names no user and no host.
struct Environment {
  std::string time;        ///< UTC, "2025-06-01T12:34:56Z"
  std::string slipstream;  ///< version
  std::string revision;    ///< git revision, with "-dirty" where the tree had changes
  std::string compiler;
  std::string libtorch;  ///< version
  std::string os;        ///< kernel and its release
  std::string cpu;
  unsigned logical_cores = 0;      ///< that this process may use (affinity, control group)
  std::uint64_t memory_bytes = 0;  ///< that this process may use (machine, control group)
  std::optional<GpuInfo> gpu;
  /// Why figures of this run may mislead: an unoptimized or sanitized build, a busy machine, a
  /// clock that is scaled.
  std::vector<std::string> warnings;
};

/// Reads what the operating system tells; what cannot be read is "unknown" or 0. Never throws for
/// that.
Environment probe_environment(std::string libtorch, std::optional<GpuInfo> gpu);

/// A warning that the machine was busy, where `load` (the number of tasks that run or want to) is
/// above `cores`; else "".
std::string busy_warning(double load, unsigned cores);

std::string_view slipstream_version();
/// As of the build: from git, else from SLIPSTREAM_REVISION in the build's environment, else
/// "unknown".
std::string_view slipstream_revision();

}  // namespace slipstream
