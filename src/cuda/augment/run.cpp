#include "cuda/augment/kernels.h"
#include "cuda/augment/passes.h"
#include "slipstream/core/error.h"

namespace slipstream::cuda {
namespace {

using augment::PassMemory;

void clear_statistics(const augment::PassProgram& pass, const PassMemory& memory,
                      cudaStream_t stream) {
  if (pass.statistics == 0) return;
  const auto bytes =
      static_cast<std::size_t>(pass.statistics * memory.batch_size) * memory.statistics_bytes;
  check_cuda(cudaMemsetAsync(memory.statistics, 0, bytes, stream));
}

}  // namespace

void augment_async(const AugmentPlan& plan, std::size_t batch_size, const std::byte* images,
                   const std::byte* drawn, std::byte* scratch, std::byte* to, StreamView stream) {
  const AugmentPlan::Program& program = plan.program();
  if (program.kind != FieldKind::mask && program.special.size() != program.passes.size())
    throw Error(
        "the plan has no kernels yet: call AugmentPlan::specialize() before augment_async()");
  if (batch_size == 0) return;
  augment::each_pass(program, batch_size, images, drawn, scratch, to,
                     [&](std::size_t i, const PassMemory& memory) {
                       const augment::PassProgram& pass = program.passes[i];
                       if (program.kind == FieldKind::mask) {
                         return launch_masks(pass, memory, batch_size, size_bytes(program.in),
                                             stream.get());
                       }
                       clear_statistics(pass, memory, stream.get());
                       program.special[i].launch(memory, stream.get());
                     });
}

}  // namespace slipstream::cuda
