#pragma once

#include <functional>

#include "slipstream/context.h"
#include "slipstream/diagnosis.h"
#include "slipstream/gpu_meter.h"

namespace slipstream {

/// How busy device and cores are while something runs, added up over all of it.
class Usage {
 public:
  explicit Usage(const Context& context) : context_(context) {}

  void during(const std::function<void()>& run);
  /// `cores`: that the process may use; `bytes`: read meanwhile.
  Utilisation utilisation(unsigned cores, double bytes) const;
  /// That hold a context on the device, this one included; nothing where nobody tells.
  std::optional<unsigned> gpu_processes() const { return gpu_.processes; }

 private:
  const Context& context_;
  double wall_s_ = 0;
  double cpu_s_ = 0;
  cuda::GpuUse gpu_;  ///< of the last
};

}  // namespace slipstream
