#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// A GPU as its driver describes it. The caller fills it in, because the report module does not
/// depend on CUDA.
struct GpuInfo {
  std::string name;
  std::string driver;              ///< driver version
  std::string runtime;             ///< CUDA runtime version
  std::string compute_capability;  ///< "9.0"
  std::uint64_t memory_bytes = 0;
};

/// The machine and software that produced a report. Contains neither user nor host names.
struct Environment {
  std::string time;        ///< UTC, "2025-06-01T12:34:56Z"
  std::string slipstream;  ///< version
  std::string revision;    ///< git revision, with "-dirty" where the tree had changes
  std::string compiler;
  std::string libtorch;  ///< version
  std::string os;        ///< kernel name and release
  std::string cpu;
  unsigned logical_cores = 0;      ///< usable by this process (affinity, control group)
  std::uint64_t memory_bytes = 0;  ///< usable by this process (machine, control group)
  std::optional<GpuInfo> gpu;
  /// Reasons why the measurements of this run may be misleading: an unoptimized or sanitized build,
  /// a busy machine, CPU frequency scaling.
  std::vector<std::string> warnings;
};

/// Collects what the operating system reports. Values that cannot be read are "unknown" or 0; that
/// never throws.
Environment probe_environment(std::string libtorch, std::optional<GpuInfo> gpu);

/// Returns a warning that the machine was busy if `load` (the number of runnable tasks) is above
/// `cores`, else "".
std::string busy_warning(double load, unsigned cores);

/// Formats a time in UTC: "2025-06-01T12:34:56Z".
std::string utc_text(std::time_t time);

std::string_view slipstream_version();
/// Returns the revision at build time: from git, else from SLIPSTREAM_REVISION in the build's
/// environment, else "unknown".
std::string_view slipstream_revision();

}  // namespace slipstream
