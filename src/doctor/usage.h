#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cuda/gpu_meter.h"
#include "slipstream/doctor/diagnosis.h"
#include "slipstream/engine/context.h"

namespace slipstream {

/// Of several times, each share over those that told it; the note where one is missing; processes
/// as the last told them.
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
  std::string note_;  ///< the last
};

/// How busy device and cores are while something runs, added up over all of it.
class Usage {
 public:
  explicit Usage(const Context& context) : context_(context) {}

  void during(const std::function<void()>& run);
  /// `cores`: that the process may use; `bytes`: read meanwhile.
  Utilization utilization(unsigned cores, double bytes) const;
  /// That hold a context on the device, this one included; nothing where nobody tells.
  std::optional<unsigned> gpu_processes() const { return gpu_.value().processes; }

 private:
  const Context& context_;
  double wall_s_ = 0;
  double cpu_s_ = 0;
  MeanGpuUse gpu_;
};

}  // namespace slipstream
