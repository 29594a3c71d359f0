#include "augment/kernels.h"
#include "augment/passes.h"
#include "slipstream/core/error.h"

namespace slipstream::cuda {
namespace {

using augment::PassMemory;

void clear_sums(const augment::PassProgram& pass, const PassMemory& memory, cudaStream_t stream) {
  if (pass.contrasts == 0) return;
  const auto bytes =
      static_cast<std::size_t>(pass.contrasts * memory.batch_size) * sizeof(std::int64_t);
  check_cuda(cudaMemsetAsync(memory.sums, 0, bytes, stream));
}

void sum_contrasts(const augment::PassProgram& pass, const PassMemory& memory,
                   std::int32_t channels, cudaStream_t stream) {
  for (std::int32_t at = 0; at < pass.count; ++at) {
    const augment::ProgramStep& step = pass.steps[at];
    const bool is_contrast = step.kind == augment::StepKind::jitter && step.contrast >= 0;
    if (!is_contrast) continue;
    channels == 1 ? augment::launch_sums<1>(pass, memory, at, stream)
                  : augment::launch_sums<3>(pass, memory, at, stream);
  }
}

void launch(const augment::PassProgram& pass, const PassMemory& memory, std::int32_t channels,
            cudaStream_t stream) {
  const augment::LaunchShape shape =
      augment::launch_shape(pass, channels, memory.drawn_bytes, augment::device_limits());
  switch (channels) {
    case 1:
      return augment::launch_images<1>(pass, memory, shape, stream);
    case 2:
      return augment::launch_images<2>(pass, memory, shape, stream);
    case 3:
      return augment::launch_images<3>(pass, memory, shape, stream);
    case 4:
      return augment::launch_images<4>(pass, memory, shape, stream);
    default:
      ensure(false, "images on the device have 1 to 4 channels");
  }
}

}  // namespace

void augment_async(const AugmentPlan& plan, std::size_t batch_size, const std::byte* images,
                   const std::byte* drawn, std::byte* scratch, std::byte* to, StreamView stream) {
  const AugmentPlan::Program& program = plan.program();
  if (!program.functions.empty() && program.special.empty()) {
    throw Error("transform '" + program.functions[0].named.name +
                "' is a pixel function of your own, which no kernel of the library holds: call "
                "AugmentPlan::specialize() before augment_async()");
  }
  if (batch_size == 0) return;
  augment::each_pass(program, batch_size, images, drawn, scratch, to,
                     [&](std::size_t i, const PassMemory& memory) {
                       const augment::PassProgram& pass = program.passes[i];
                       if (program.kind == FieldKind::mask) {
                         return launch_masks(pass, memory, batch_size, size_bytes(program.in),
                                             stream.get());
                       }
                       clear_sums(pass, memory, stream.get());
                       if (!program.special.empty())
                         return program.special[i].launch(memory, stream.get());
                       sum_contrasts(pass, memory, program.channels, stream.get());
                       launch(pass, memory, program.channels, stream.get());
                     });
}

}  // namespace slipstream::cuda
