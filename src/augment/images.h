#pragma once

#include "augment/blur_kernel.h"
#include "augment/kernels.h"
#include "augment/plain_kernel.h"
#include "augment/sum_kernel.h"
#include "cuda/cuda.h"

// The kernels that take any pass over images of C channels: a source file each, for they take long
// to compile.
namespace slipstream::augment {

template <int C, Way kWay>
__global__ void __launch_bounds__(kPlainThreads)
    plain_kernel(const __grid_constant__ PassProgram pass, const PassMemory memory,
                 const __grid_constant__ LaunchShape shape) {
  plain_block<C, kWay>(pass, memory, shape);
}

template <int C, Way kWay>
__global__ void __launch_bounds__(kBlurThreads)
    blur_kernel(const __grid_constant__ PassProgram pass, const PassMemory memory,
                const __grid_constant__ LaunchShape shape) {
  blur_block<C, kWay, 0>(pass, memory, shape);
}

template <int C, Way kWay>
void launch_way(const PassProgram& pass, const PassMemory& memory, const LaunchShape& shape,
                cudaStream_t stream) {
  const bool is_plain = pass.stencil == pass.count;
  const auto kernel = is_plain ? plain_kernel<C, kWay> : blur_kernel<C, kWay>;
  const auto blocks = static_cast<unsigned>(shape.grid.tiles * memory.batch_size);
  cuda::check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(shape.shared_bytes)));
  kernel<<<blocks, is_plain ? kPlainThreads : kBlurThreads, shape.shared_bytes, stream>>>(
      pass, memory, shape);
  cuda::check_cuda(cudaGetLastError());
}

template <int C>
void launch_images(const PassProgram& pass, const PassMemory& memory, const LaunchShape& shape,
                   cudaStream_t stream) {
  switch (way_of(pass)) {
    case Way::direct:
      return launch_way<C, Way::direct>(pass, memory, shape, stream);
    case Way::linear:
      return launch_way<C, Way::linear>(pass, memory, shape, stream);
    case Way::warp:
      return launch_way<C, Way::warp>(pass, memory, shape, stream);
    case Way::filter:
      return launch_way<C, Way::filter>(pass, memory, shape, stream);
  }
}

template <int C, bool kInterpolates>
__global__ void __launch_bounds__(kPlainThreads)
    sum_kernel(const __grid_constant__ PassProgram pass, const PassMemory memory,
               const std::int32_t at, const unsigned blocks) {
  extern __shared__ __align__(16) std::byte drawn[];
  __shared__ Prepared prepared;
  const auto index = static_cast<std::int64_t>(blockIdx.x / blocks);
  share_drawn(memory, index, drawn);
  __syncthreads();
  const ProgramStep& step = pass.steps[at];
  if (!drawn_at<DrawnJitter>(step, drawn).has(Jitter::contrast)) return;
  if (threadIdx.x == 0) prepare(pass, memory, index, drawn, prepared);
  __syncthreads();
  const Image image{pass, drawn, prepared, source_of_image(pass, memory, index, C), {}};
  const std::int32_t pixels = step.in_height * step.in_width;
  std::int64_t sum = 0;
  for (auto i = static_cast<std::int32_t>(blockIdx.x % blocks * kPlainThreads + threadIdx.x);
       i < pixels; i += static_cast<std::int32_t>(blocks * kPlainThreads)) {
    const std::int32_t y = i / step.in_width;
    sum += contrast_term_at<C, kInterpolates>(image, at, y, i - y * step.in_width);
  }
  add_up(memory, step, index, sum);
}

template <int C>
void launch_sums(const PassProgram& pass, const PassMemory& memory, std::int32_t at,
                 cudaStream_t stream) {
  constexpr std::int64_t kPixelsOfAThread = 16;
  const ProgramStep& step = pass.steps[at];
  const std::int64_t pixels = static_cast<std::int64_t>(step.in_height) * step.in_width;
  const std::int64_t each = kPixelsOfAThread * kPlainThreads;
  const auto blocks = static_cast<unsigned>((pixels + each - 1) / each);
  const auto all = static_cast<unsigned>(memory.batch_size) * blocks;
  const auto kernel = pass.interpolation >= 0 ? sum_kernel<C, true> : sum_kernel<C, false>;
  kernel<<<all, kPlainThreads, memory.drawn_bytes, stream>>>(pass, memory, at, blocks);
  cuda::check_cuda(cudaGetLastError());
}

}  // namespace slipstream::augment
