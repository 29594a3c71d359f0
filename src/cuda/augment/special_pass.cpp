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

SpecialPurpose purpose_of_statistics(const AugmentPlan::Program& program, std::size_t pass,
                                     std::int32_t at, const DeviceLimits& limits) {
  const PassProgram before = before_statistics(program.passes[pass], at);
  const PassMemory formats = make_pass_memory(program, pass);
  return {before,
          program.passes[pass].steps[at],
          formats,
          program.channels,
          launch_shape(before, program.channels, formats.drawn_bytes, limits),
          functions_source(before, program.functions)};
}

SpecialPass::SpecialPass(const AugmentPlan::Program& program, std::size_t pass)
    : channels_(program.channels), images_(purpose_of_images(program, pass, device_limits())) {
  const DeviceLimits limits = device_limits();
  const PassProgram& steps = program.passes[pass];
  for (std::int32_t at = 0; at < steps.count; ++at) {
    const ProgramStep& step = steps.steps[at];
    if (step.statistic < 0) continue;
    measurements_.push_back(
        {step, SpecialKernel(purpose_of_statistics(program, pass, at, limits))});
  }
}

void SpecialPass::launch(const PassMemory& memory, cudaStream_t stream) const {
  for (const Measurement& measurement : measurements_) {
    measurement.kernel.launch(memory, stream);
    if (has_table(measurement.step.kind))
      launch_tables(measurement.step, memory, channels_, stream);
  }
  images_.launch(memory, stream);
}

}  // namespace slipstream::augment
