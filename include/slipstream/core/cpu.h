#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// CPU numbers as Linux assigns them, in ascending order without duplicates. An empty list means
/// "unknown": containers often hide the machine's topology, and no function here treats that as an
/// error.
using CpuList = std::vector<unsigned>;

/// Every CPU number is below this limit.
inline constexpr unsigned kMaxCpus = 65536;

/// Parses CPU numbers and ranges in any order, such as "0-3,8,10-11". Ignores blanks at both ends.
/// Throws Refused, quoting the text, for anything else, including an empty text.
CpuList parse_cpu_list(std::string_view text);
/// Returns the shortest text that parse_cpu_list() parses to `cpus`.
/// REQUIRES: `cpus` ascending, without duplicates
std::string format_cpu_list(std::span<const unsigned> cpus);

/// Returns the CPUs that the calling thread may run on, after the container's cpuset, taskset and
/// any CpuBinding.
CpuList allowed_cpus();

/// Returns the number of CPUs that this process can use at once, at least 1. It is the size of
/// allowed_cpus(), or less if the process's control group has a quota (`cpu.max`, rounded up).
/// `cgroup` is the root of the control group file system; tests pass another folder.
unsigned usable_cores(const std::filesystem::path& cgroup = "/sys/fs/cgroup");

/// Appends a message to `problems` if some of `cpus` are not in allowed_cpus(). The message lists
/// the CPUs that are not allowed and those that are.
void check_cpus(std::span<const unsigned> cpus, std::vector<std::string>& problems);

/// Pins the calling thread to a set of CPUs while the object exists. Threads that it starts
/// meanwhile inherit the pinning and keep it. Linux places memory that the thread writes first on
/// the NUMA node of these CPUs, if that node has free memory. An empty set changes nothing.
/// REQUIRES: destroyed by the thread that constructed it, in reverse order of construction
class CpuBinding {
 public:
  /// Moves the calling thread to `cpus`. Throws Error if none of them may be used.
  explicit CpuBinding(std::span<const unsigned> cpus);
  /// Restores the CPUs that the thread was allowed to use before.
  ~CpuBinding();
  CpuBinding(const CpuBinding&) = delete;
  CpuBinding& operator=(const CpuBinding&) = delete;

 private:
  CpuList before_;
};

/// Returns the CPUs of a NUMA node. The list is empty if they are unknown or if the node has only
/// memory. `sysfs` is the mount point of sysfs; tests pass another folder.
CpuList cpus_of_node(unsigned node, const std::filesystem::path& sysfs = "/sys");

/// NUMA node and CPUs that a PCI device is attached to.
struct PciLocation {
  std::optional<unsigned> node;  ///< NUMA node; empty if unknown or if there is only one node
  /// CPUs near the device, including those this process may not use; empty if unknown.
  CpuList cpus;
};

/// Looks up the PCI device at `address`, which is domain:bus:device.function in hexadecimal digits
/// of either case, as CUDA ("0000:AF:00.0") and NVML ("00000000:AF:00.0") format it. For any other
/// text the result is "unknown".
PciLocation locate_pci_device(std::string_view address,
                              const std::filesystem::path& sysfs = "/sys");

}  // namespace slipstream
