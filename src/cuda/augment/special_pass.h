#pragma once

#include <vector>

#include "cuda/augment/augment.h"
#include "cuda/augment/special_kernel.h"

namespace slipstream::augment {

/// What the kernel is compiled for that makes the images of a pass, and for those that first add up
/// what the contrast of step `at` takes the mean of.
SpecialPurpose purpose_of_images(const AugmentPlan::Program& program, std::size_t pass,
                                 const DeviceLimits& limits);
SpecialPurpose purpose_of_sums(const AugmentPlan::Program& program, std::size_t pass,
                               std::int32_t at, const DeviceLimits& limits);

/// All kernels of one pass, for the current device.
class SpecialPass {
 public:
  SpecialPass(const AugmentPlan::Program& program, std::size_t pass);

  /// `memory.sums`: all 0.
  void launch(const PassMemory& memory, cudaStream_t stream) const;

 private:
  std::vector<SpecialKernel> kernels_;  ///< in order
};

}  // namespace slipstream::augment
