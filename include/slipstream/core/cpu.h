#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// CPUs as Linux numbers them, ascending, each once. "Unknown" is the empty list: containers often
/// hide what a machine is made of, and nothing here takes that for an error.
using CpuList = std::vector<unsigned>;

/// Numbers are below this.
inline constexpr unsigned kMaxCpus = 65536;

/// Of numbers and ranges, in any order: "0-3,8,10-11". Blanks at both ends are passed over. Throws
/// Refused, with the text, for anything else: also for no number at all.
CpuList parse_cpu_list(std::string_view text);
/// The shortest text that parse_cpu_list() reads as `cpus`. REQUIRES: ascending, each once
std::string format_cpu_list(std::span<const unsigned> cpus);

/// Where the calling thread may run: within the container's cpuset, and what taskset or a
/// CpuBinding allows it.
CpuList allowed_cpus();

/// How many of them this process may keep busy: fewer where its control group has a quota. At least
/// 1. `cgroup`: another root in tests.
unsigned usable_cores(const std::filesystem::path& cgroup = "/sys/fs/cgroup");

/// Adds a problem that names those of `cpus` that are not among allowed_cpus(), and these.
void check_cpus(std::span<const unsigned> cpus, std::vector<std::string>& problems);

/// While it lives, the calling thread runs on `cpus` alone (anywhere of them), and so do for good
/// the threads that it starts. Memory it is the first to write is then of these CPUs' NUMA node,
/// where that has any left. Nothing where `cpus` is empty.
/// REQUIRES: ended by the thread that made it, the last one made first
class CpuBinding {
 public:
  /// Throws Error where none of `cpus` may be used.
  explicit CpuBinding(std::span<const unsigned> cpus);
  /// Back to where the thread might run before.
  ~CpuBinding();
  CpuBinding(const CpuBinding&) = delete;
  CpuBinding& operator=(const CpuBinding&) = delete;

 private:
  CpuList before_;
};

/// The CPUs of a NUMA node; empty: unknown, or it has memory alone. `sysfs`: another root in tests.
CpuList cpus_of_node(unsigned node, const std::filesystem::path& sysfs = "/sys");

/// Where a PCI device is attached.
struct PciPlace {
  std::optional<unsigned> node;  ///< nothing: unknown, or the machine has one node
  CpuList cpus;                  ///< near the device; empty: unknown. Not all need be allowed
};

/// `address`: domain:bus:device.function in hexadecimal digits of either case, as CUDA
/// ("0000:AF:00.0") and NVML ("00000000:AF:00.0") give it. Anything else is unknown.
PciPlace place_of_pci_device(std::string_view address, const std::filesystem::path& sysfs = "/sys");

}  // namespace slipstream
