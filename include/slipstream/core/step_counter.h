#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slipstream {

/// What one host step (read, decode, a transform, collate) or device step cost so far.
struct StepCounter {
  std::string name;
  std::uint64_t calls = 0;
  double wall_s = 0;        ///< summed over threads; of device steps: host time to enqueue
  double cpu_s = 0;         ///< thread CPU time, summed over threads
  std::uint64_t bytes = 0;  ///< bytes that the step produced

  /// Adds what another part of the run cost.
  void add(const StepCounter& other) {
    calls += other.calls;
    wall_s += other.wall_s;
    cpu_s += other.cpu_s;
    bytes += other.bytes;
  }

  /// Leaves what came after `earlier`.
  void subtract(const StepCounter& earlier) {
    calls -= earlier.calls;
    wall_s -= earlier.wall_s;
    cpu_s -= earlier.cpu_s;
    bytes -= earlier.bytes;
  }
};

/// What one host step cost for single samples, s, to 16 ns and up to 68 s.
struct StepLaps {
  std::string name;
  std::vector<float> wall_s;
  std::vector<float> cpu_s;  ///< of the same samples, thread CPU time
};

}  // namespace slipstream
