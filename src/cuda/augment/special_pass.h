#pragma once

#include <vector>

#include "cuda/augment/augment.h"
#include "cuda/augment/special_kernel.h"

namespace slipstream::augment {

/// Returns the purposes of the kernel that computes the images of a pass, and of the kernel that
/// first collects the Statistics that step `at` needs.
SpecialPurpose purpose_of_images(const AugmentPlan::Program& program, std::size_t pass,
                                 const DeviceLimits& limits);
SpecialPurpose purpose_of_statistics(const AugmentPlan::Program& program, std::size_t pass,
                                     std::int32_t at, const DeviceLimits& limits);

/// All kernels of one pass, for the current device.
class SpecialPass {
 public:
  SpecialPass(const AugmentPlan::Program& program, std::size_t pass);

  /// Launches the kernels on `stream`. All of `memory.statistics` must be 0.
  void launch(const PassMemory& memory, cudaStream_t stream) const;

 private:
  /// The kernel that collects the Statistics that `step` needs.
  struct Measurement {
    ProgramStep step;
    SpecialKernel kernel;
  };

  std::int32_t channels_;
  std::vector<Measurement> measurements_;  ///< in order
  SpecialKernel images_;
};

}  // namespace slipstream::augment
