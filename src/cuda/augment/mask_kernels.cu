#include "cuda/augment/evaluate.h"
#include "cuda/augment/kernels.h"
#include "cuda/cuda.h"

namespace slipstream::augment {
namespace {

constexpr unsigned kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    mask_kernel(const __grid_constant__ PassProgram pass, const PassMemory memory,
                const std::int64_t values) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= values) return;
  const std::int64_t pixels = static_cast<std::int64_t>(pass.out_height) * pass.out_width;
  const std::int64_t image = i / pixels;
  const auto place = static_cast<std::int32_t>(i - image * pixels);
  const std::int32_t y = place / pass.out_width;
  const Origin at = way_back(pass, memory.drawn + image * memory.drawn_bytes, 0, pass.count, y,
                             place - y * pass.out_width);
  const T* mask = reinterpret_cast<const T*>(memory.images) +
                  image * static_cast<std::int64_t>(pass.in_height) * pass.in_width;
  reinterpret_cast<T*>(memory.to)[i] =
      at.is_filled ? static_cast<T>(pass.steps[at.next - 1].mask_fill)
                   : mask[static_cast<std::int64_t>(at.y) * pass.in_width + at.x];
}

template <typename T>
void launch(const PassProgram& pass, const PassMemory& memory, std::size_t batch_size,
            cudaStream_t stream) {
  const std::int64_t values = static_cast<std::int64_t>(batch_size) * pass.out_height *
                              static_cast<std::int64_t>(pass.out_width);
  const auto blocks = static_cast<unsigned>((values + kThreads - 1) / kThreads);
  mask_kernel<T><<<blocks, kThreads, 0, stream>>>(pass, memory, values);
  cuda::check_cuda(cudaGetLastError());
}

}  // namespace

void launch_masks(const PassProgram& pass, const PassMemory& memory, std::size_t batch_size,
                  std::size_t value_bytes, cudaStream_t stream) {
  switch (value_bytes) {
    case 1:
      return launch<std::uint8_t>(pass, memory, batch_size, stream);
    case 4:
      return launch<std::uint32_t>(pass, memory, batch_size, stream);
    default:
      launch<std::uint64_t>(pass, memory, batch_size, stream);
  }
}

}  // namespace slipstream::augment
