#include "cuda/augment/special_pass.h"

#include "cuda/augment/plan.h"

namespace slipstream::augment {

SpecialPurpose purpose_of_images(const AugmentPlan::Program& program, std::size_t pass,
                                 const DeviceLimits& limits) {
  const PassProgram& steps = program.passes[pass];
  const PassMemory formats = make_pass_memory(program, pass);
  return {steps,
          std::nullopt,
          formats,
          program.channels,
          launch_shape(steps, program.channels, formats.drawn_bytes, limits),
          functions_source(steps, program.functions)};
}

SpecialPurpose purpose_of_sums(const AugmentPlan::Program& program, std::size_t pass,
                               std::int32_t at, const DeviceLimits& limits) {
  const PassProgram before = before_contrast(program.passes[pass], at);
  const PassMemory formats = make_pass_memory(program, pass);
  return {before,
          program.passes[pass].steps[at],
          formats,
          program.channels,
          launch_shape(before, program.channels, formats.drawn_bytes, limits),
          functions_source(before, program.functions)};
}

SpecialPass::SpecialPass(const AugmentPlan::Program& program, std::size_t pass) {
  const DeviceLimits limits = device_limits();
  const PassProgram& steps = program.passes[pass];
  for (std::int32_t at = 0; at < steps.count; ++at) {
    if (steps.steps[at].kind != StepKind::jitter || steps.steps[at].contrast < 0) continue;
    kernels_.emplace_back(purpose_of_sums(program, pass, at, limits));
  }
  kernels_.emplace_back(purpose_of_images(program, pass, limits));
}

void SpecialPass::launch(const PassMemory& memory, cudaStream_t stream) const {
  for (const SpecialKernel& kernel : kernels_) kernel.launch(memory, stream);
}

}  // namespace slipstream::augment
