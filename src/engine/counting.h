#pragma once

#include <chrono>
#include <cstdint>

#include "slipstream/core/step_counter.h"

namespace slipstream {

/// Measures one call from construction to destruction and adds it to a counter, unless the counter
/// is nullptr. The CPU time is that of the calling thread.
class Counting {
 public:
  explicit Counting(StepCounter* counter);
  ~Counting();
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

  void made(std::uint64_t bytes);

 private:
  StepCounter* counter_;
  std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
  double cpu_s_;
};

}  // namespace slipstream
