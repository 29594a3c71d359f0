#pragma once

#include <cstdint>
#include <string>

#include "core/trace.h"
#include "slipstream/engine/context.h"

namespace slipstream {

/// The GPU's kernels and copies, as PyTorch's profiler (Kineto, on CUPTI) records them. On a CPU it
/// does nothing. One at a time; all calls from one thread.
class KernelTrace {
 public:
  /// Prepares the profiler, which takes a while the first time.
  explicit KernelTrace(const Context& context);
  /// Throws away what was recorded and not taken by stop().
  ~KernelTrace();
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;

  void start();
  /// Adds a row for each stream that worked since start(). REQUIRES: the device is idle
  void stop(TraceRecorder& recorder);

  /// Why a GPU's kernels are missing, a sentence; "" where they are there, and on a CPU.
  const std::string& problem() const { return problem_; }

 private:
  bool on_gpu_;
  bool running_ = false;
  std::string problem_;
};

}  // namespace slipstream
