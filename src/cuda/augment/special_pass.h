#pragma once

#include <vector>

#include "cuda/augment/augment.h"
#include "cuda/augment/special_kernel.h"

namespace slipstream::augment {

/// Returns the purposes of the kernel that computes the images of a pass, and of the kernels that
/// first sum the values for the mean that the contrast of step `at` needs.
SpecialPurpose purpose_of_images(const AugmentPlan::Program& program, std::size_t pass,
                                 const DeviceLimits& limits);
SpecialPurpose purpose_of_sums(const AugmentPlan::Program& program, std::size_t pass,
                               std::int32_t at, const DeviceLimits& limits);

/// All kernels of one pass, for the current device.
class SpecialPass {
 public:
  SpecialPass(const AugmentPlan::Program& program, std::size_t pass);

  /// Launches the kernels on `stream`. All of `memory.sums` must be 0.
  void launch(const PassMemory& memory, cudaStream_t stream) const;

 private:
  std::vector<SpecialKernel> kernels_;  ///< in order
};

}  // namespace slipstream::augment
