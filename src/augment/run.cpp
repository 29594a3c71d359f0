#include <utility>

#include "augment/kernels.h"
#include "augment/plan.h"
#include "slipstream/error.h"

namespace slipstream::cuda {
namespace {

using augment::PassMemory;
using augment::Stored;

Stored stored_between(Range range) { return range == Range::levels ? Stored::u8 : Stored::f32; }

Stored stored_at_end(const AugmentPlan::Program& program) {
  if (program.out == DType::u8) return Stored::u8;
  return program.output.bf16 ? Stored::bf16 : Stored::f32;
}

}  // namespace

void augment_async(const AugmentPlan& plan, std::size_t batch_size, const std::byte* images,
                   const std::byte* drawn, std::byte* scratch, std::byte* to, StreamView stream) {
  const AugmentPlan::Program& program = plan.program();
  if (batch_size == 0) return;
  const std::size_t passes = program.passes.size();
  std::byte* next = scratch;
  std::byte* after_next = scratch + (passes > 2 ? plan.scratch_bytes(batch_size) / 2 : 0);
  for (std::size_t i = 0; i < passes; ++i) {
    const bool is_last = i + 1 == passes;
    const PassMemory memory = {
        .images = images,
        .range = program.ranges[i],
        .drawn = drawn,
        .drawn_bytes = static_cast<std::uint32_t>(program.drawn_bytes),
        .to = is_last ? to : next,
        .stored = is_last ? stored_at_end(program) : stored_between(program.ranges[i + 1]),
        .layout = is_last ? program.output.layout : ImageLayout::channels_last};
    if (program.kind == FieldKind::mask) {
      launch_masks(program.passes[i], memory, batch_size, size_bytes(program.in), stream.get());
    } else {
      launch_images(program.passes[i], memory, batch_size, program.channels, stream.get());
    }
    images = next;
    std::swap(next, after_next);
  }
}

}  // namespace slipstream::cuda
