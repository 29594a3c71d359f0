#include "cuda/augment/kernels.h"
#include "cuda/augment/tables.h"
#include "cuda/cuda.h"

namespace slipstream::augment {
namespace {

/// A block computes the table of an image, a thread the new values of a level.
__global__ void __launch_bounds__(kLevels)
    table_kernel(const __grid_constant__ ProgramStep step, const PassMemory memory,
                 const int channels) {
  const std::int64_t image = blockIdx.x;
  set_table(step, memory.drawn + image * memory.drawn_bytes, channels,
            static_cast<std::int32_t>(threadIdx.x),
            image_statistics(memory, step.statistic, image));
}

}  // namespace

void launch_tables(const ProgramStep& step, const PassMemory& memory, std::int32_t channels,
                   cudaStream_t stream) {
  table_kernel<<<static_cast<unsigned>(memory.batch_size), kLevels, 0, stream>>>(step, memory,
                                                                                 channels);
  cuda::check_cuda(cudaGetLastError());
}

}  // namespace slipstream::augment
