#pragma once

#include <cstdint>
#include <string>

#include "core/trace.h"
#include "slipstream/engine/context.h"

namespace slipstream {

/// Records the GPU's kernels and copies with PyTorch's profiler (Kineto, on CUPTI). On a CPU it
/// does nothing. Only one object may exist at a time, and one thread must make all calls.
class KernelTrace {
 public:
  /// Prepares the profiler, which takes some time for the first object.
  explicit KernelTrace(const Context& context);
  /// Discards everything that was recorded and not taken by stop().
  ~KernelTrace();
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;

  void start();
  /// Adds a row for each stream that was used since start(). REQUIRES: the device is idle
  void stop(TraceRecorder& recorder);

  /// Returns why a GPU's kernels were not recorded, a sentence; "" if they were, and on a CPU.
  const std::string& problem() const { return problem_; }

 private:
  bool on_gpu_;
  bool running_ = false;
  std::string problem_;
};

}  // namespace slipstream
