#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cuda/gpu_meter.h"
#include "slipstream/doctor/diagnosis.h"
#include "slipstream/engine/context.h"

namespace slipstream {

/// Averages the GPU use of several time spans. Each share is the mean over the spans that report
/// it. The result has the last note if a share is missing, and the last number of processes.
class MeanGpuUse {
 public:
  void add(const cuda::GpuUse& use, double seconds);
  cuda::GpuUse value() const;

 private:
  struct Mean {
    double product_s = 0;
    double seconds = 0;
    void add(const std::optional<double>& share, double over_s);
    std::optional<double> value() const;
  };
  Mean sm_activity_, dram_use_, gpu_utilization_;
  std::optional<unsigned> processes_;
  std::string note_;  ///< last note that was not empty
};

/// Measures how busy the device and the cores are, over all functions passed to during().
class Usage {
 public:
  explicit Usage(const Context& context) : context_(context) {}

  /// Calls `run` and measures while it runs.
  void during(const std::function<void()>& run);
  /// `cores`: number of cores that the process may use. `bytes`: bytes read during the runs.
  Utilization utilization(unsigned cores, double bytes) const;
  /// Number of processes with a context on the device, including this one; empty if not known.
  std::optional<unsigned> gpu_processes() const { return gpu_.value().processes; }

 private:
  const Context& context_;
  double wall_s_ = 0;
  double cpu_s_ = 0;
  MeanGpuUse gpu_;
};

}  // namespace slipstream
