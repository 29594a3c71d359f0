#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slipstream {

/// Accumulated cost of one host step (read, decode, a transform, collate) or device step.
struct StepCounter {
  std::string name;
  std::uint64_t calls = 0;
  double wall_s = 0;  ///< wall time, summed over threads; for device steps the time to enqueue them
  double cpu_s = 0;   ///< CPU time of the threads, summed
  std::uint64_t bytes = 0;  ///< bytes that the step produced

  /// Adds the cost of the same step in another part of the run.
  void add(const StepCounter& other) {
    calls += other.calls;
    wall_s += other.wall_s;
    cpu_s += other.cpu_s;
    bytes += other.bytes;
  }

  /// Subtracts `earlier`, a previous reading of the same counter, which leaves the cost since then.
  void subtract(const StepCounter& earlier) {
    calls -= earlier.calls;
    wall_s -= earlier.wall_s;
    cpu_s -= earlier.cpu_s;
    bytes -= earlier.bytes;
  }
};

/// Cost of one host step for individual samples, in seconds, with a resolution of 16 ns and up to
/// 68 s.
struct StepLaps {
  std::string name;
  std::vector<float> wall_s;
  std::vector<float> cpu_s;  ///< the thread's CPU time for the same samples
};

}  // namespace slipstream
