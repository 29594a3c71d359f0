#pragma once

#include <optional>

#include <sys/types.h>

namespace slipstream {

/// Times of another process since its start.
struct ProcessTimes {
  double cpu_s = 0;  ///< CPU time of all its threads
  /// Time that its main thread was ready to run but had no core; 0 if the kernel does not count it.
  double core_wait_s = 0;
};

/// Returns the times of a process, or nothing if it has ended. Takes a few microseconds.
std::optional<ProcessTimes> process_times(pid_t process);

/// Returns the CPU time of the calling thread.
double thread_cpu_s();

}  // namespace slipstream
