#include <utility>

#include "augment/kernels.h"
#include "augment/plan.h"
#include "slipstream/error.h"

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
                "AugmentPlan::specialise() before augment_async()");
  }
  if (batch_size == 0) return;
  const std::size_t passes = program.passes.size();
  auto* sums = reinterpret_cast<std::int64_t*>(scratch);
  std::byte* next = scratch + augment::sums_bytes(program, batch_size);
  std::byte* after_next = next + (passes > 2 ? augment::place_bytes(program, batch_size) : 0);
  for (std::size_t i = 0; i < passes; ++i) {
    const bool is_last = i + 1 == passes;
    PassMemory memory = augment::formats_of(program, i);
    memory.images = images;
    memory.drawn = drawn;
    memory.sums = sums;
    memory.batch_size = static_cast<std::int64_t>(batch_size);
    memory.to = is_last ? to : next;
    const augment::PassProgram& pass = program.passes[i];
    if (program.kind == FieldKind::mask) {
      launch_masks(pass, memory, batch_size, size_bytes(program.in), stream.get());
    } else {
      clear_sums(pass, memory, stream.get());
      if (program.special.empty()) {
        sum_contrasts(pass, memory, program.channels, stream.get());
        launch(pass, memory, program.channels, stream.get());
      } else {
        program.special[i].launch(memory, stream.get());
      }
    }
    images = next;
    std::swap(next, after_next);
  }
}

}  // namespace slipstream::cuda
