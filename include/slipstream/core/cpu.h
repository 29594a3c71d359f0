#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// CPUs as Linux numbers them, ascending, each once. The empty list means "unknown": containers
/// often hide what a machine is made of, and no function here takes that for an error.
using CpuList = std::vector<unsigned>;

/// All numbers of CPUs are below this.
inline constexpr unsigned kMaxCpus = 65536;

/// The CPUs that a text such as "0-3,8,10-11" names: numbers and ranges, in any order. Blanks at
/// both ends are ignored. Throws Refused, with the text, for anything else, the empty text
/// included.
CpuList parse_cpu_list(std::string_view text);
/// The shortest text that parse_cpu_list() reads as `cpus`. REQUIRES: `cpus` ascending, each once
std::string format_cpu_list(std::span<const unsigned> cpus);

/// The CPUs on which the calling thread may run, as the container's cpuset, taskset and a
/// CpuBinding allow it.
CpuList allowed_cpus();

/// How many CPUs this process may keep busy, at least 1: the number of allowed_cpus(), or less
/// where the process's control group has a quota (`cpu.max`, rounded up). `cgroup` is the root of
/// the control group; tests give another one.
unsigned usable_cores(const std::filesystem::path& cgroup = "/sys/fs/cgroup");

/// Adds a text to `problems` where some of `cpus` are not among allowed_cpus(). The text names the
/// CPUs that are not allowed and the ones that are.
void check_cpus(std::span<const unsigned> cpus, std::vector<std::string>& problems);

/// Keeps the calling thread on a set of CPUs for as long as the object lives. Threads that it
/// starts meanwhile stay on these CPUs for good. Memory that the thread is the first to write is
/// placed in the NUMA node of these CPUs, where that has any left. An empty set changes nothing.
/// REQUIRES: destroyed by the thread that made it, the last one made first
class CpuBinding {
 public:
  /// Moves the calling thread to `cpus`. Throws Error where none of them may be used.
  explicit CpuBinding(std::span<const unsigned> cpus);
  /// Lets the thread run again where it was allowed to before.
  ~CpuBinding();
  CpuBinding(const CpuBinding&) = delete;
  CpuBinding& operator=(const CpuBinding&) = delete;

 private:
  CpuList before_;
};

/// The CPUs of a NUMA node; empty where they are unknown or the node has memory alone. `sysfs` is
/// where sysfs is mounted; tests give another folder.
CpuList cpus_of_node(unsigned node, const std::filesystem::path& sysfs = "/sys");

/// Where a PCI device is attached.
struct PciLocation {
  std::optional<unsigned> node;  ///< its NUMA node; no value: unknown, or there is one node
  CpuList cpus;  ///< near the device, allowed to this process or not; empty: unknown
};

/// Where the PCI device of that address is attached. `address` is domain:bus:device.function in
/// hexadecimal digits of either case, as CUDA ("0000:AF:00.0") and NVML ("00000000:AF:00.0") give
/// it. For any other text the place is unknown.
PciLocation locate_pci_device(std::string_view address,
                              const std::filesystem::path& sysfs = "/sys");

}  // namespace slipstream
