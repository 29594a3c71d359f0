#include "core/process_times.h"

#include <cstdio>
#include <ctime>
#include <string>

namespace slipstream {
namespace {

double seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Reads the second number of /proc/PROCESS/schedstat, in nanoseconds.
double core_wait_s(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/schedstat";
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return 0;
  unsigned long long on_core_ns = 0, waiting_ns = 0;
  const int numbers = std::fscanf(file, "%llu %llu", &on_core_ns, &waiting_ns);
  static_cast<void>(std::fclose(file));
  return numbers == 2 ? 1e-9 * static_cast<double>(waiting_ns) : 0;
}

}  // namespace

std::optional<ProcessTimes> process_times(pid_t process) {
  clockid_t clock = 0;
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0)
    return std::nullopt;
  return ProcessTimes{seconds(time), core_wait_s(process)};
}

double thread_cpu_s() {
  timespec time{};
  return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0 ? seconds(time) : 0;
}

}  // namespace slipstream
