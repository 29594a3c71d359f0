#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <string>

#include "core/plain_message.h"
#include "slipstream/core/cpu.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

/// A CPU mask for kMaxCpus CPUs. The kernel rejects a mask that is smaller than its own, and
/// cpu_set_t holds only CPU_SETSIZE CPUs.
class CpuSet {
 public:
  static constexpr std::size_t kBytes = kMaxCpus / CPU_SETSIZE * sizeof(::cpu_set_t);

  ::cpu_set_t* data() { return parts_.data(); }
  void add(unsigned cpu) { CPU_SET_S(cpu, kBytes, parts_.data()); }
  bool has(unsigned cpu) const { return CPU_ISSET_S(cpu, kBytes, parts_.data()); }

 private:
  std::array<::cpu_set_t, kMaxCpus / CPU_SETSIZE> parts_{};
};

int bind_to(std::span<const unsigned> cpus) {
  CpuSet set;
  for (const unsigned cpu : cpus) set.add(cpu);
  return ::sched_setaffinity(0, CpuSet::kBytes, set.data()) == 0 ? 0 : errno;
}

}  // namespace

CpuList allowed_cpus() {
  CpuSet set;
  if (::sched_getaffinity(0, CpuSet::kBytes, set.data()) != 0) return {};
  CpuList cpus;
  for (unsigned cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (set.has(cpu)) cpus.push_back(cpu);
  }
  return cpus;
}

unsigned usable_cores(const std::filesystem::path& cgroup) {
  const std::size_t allowed = allowed_cpus().size();
  const double cores = static_cast<double>(
      allowed > 0 ? allowed
                  : static_cast<std::size_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))));
  std::ifstream file(cgroup / "cpu.max");
  // Microseconds; without a quota the file says "max", which does not parse.
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return static_cast<unsigned>(cores);
  return static_cast<unsigned>(std::min(cores, std::ceil(quota / period)));
}

void check_cpus(std::span<const unsigned> cpus, std::vector<std::string>& problems) {
  const CpuList allowed = allowed_cpus();
  CpuList missing;
  for (const unsigned cpu : cpus) {
    if (!std::binary_search(allowed.begin(), allowed.end(), cpu)) missing.push_back(cpu);
  }
  if (missing.empty() || allowed.empty()) return;
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  problems.push_back("CPUs " + format_cpu_list(missing) +
                     " may not be used by this process (its container or taskset keeps it on " +
                     format_cpu_list(allowed) + "): name some of these");
}

CpuBinding::CpuBinding(std::span<const unsigned> cpus) {
  if (cpus.empty()) return;
  for (const unsigned cpu : cpus) ensure(cpu < kMaxCpus, "CPUs are numbered below kMaxCpus");
  before_ = allowed_cpus();
  const int error = bind_to(cpus);
  if (error != 0) {
    throw Error("cannot run on CPUs " + format_cpu_list(cpus) + ": " + errno_message(error) +
                "; name others, or none");
  }
}

CpuBinding::~CpuBinding() {
  if (!before_.empty()) bind_to(before_);
}

}  // namespace slipstream
