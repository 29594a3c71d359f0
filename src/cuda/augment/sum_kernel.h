#pragma once

#include "cuda/augment/plain_kernel.h"

// Device code: sums from which the means for contrasts are computed.
namespace slipstream::augment {

/// Adds a thread's part of an image's sum for the contrast of `step`. Called by all threads of a
/// warp.
__device__ __forceinline__ void add_up(const PassMemory& memory, const ProgramStep& step,
                                       std::int64_t image, std::int64_t sum) {
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_down_sync(~0U, sum, apart);
  if (threadIdx.x % 32 != 0) return;
  std::int64_t* to = memory.sums + step.contrast * memory.batch_size + image;
  // These are integers, so the order of the atomic additions does not change the result.
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(sum));
}

/// Processes one tile of `before`, a separate pass (before_contrast()), for the contrast of `step`.
template <int C, Way kWay>
__device__ __forceinline__ void sum_block(const PassProgram& before, const ProgramStep& step,
                                          const PassMemory& memory, const LaunchShape& shape) {
  extern __shared__ __align__(16) std::byte shared[];
  const Tile tile = block_tile(shape.grid);
  const std::byte* drawn = memory.drawn + tile.image * memory.drawn_bytes;
  if (!drawn_at<DrawnJitter>(step, drawn).has(Jitter::contrast)) return;
  std::int64_t sum = 0;
  each_four_of_tile<C, kWay>(before, memory, shape, tile, shared,
                             [&](const Image& image, const auto& at, const Pixel<C>(&run)[4]) {
                               for (int k = 0; k < 4; ++k) {
                                 const bool is_mine =
                                     at.y < before.out_height && at.x_at(k) < before.out_width;
                                 if (is_mine) sum += contrast_term<C>(image, step, run[k]);
                               }
                             });
  add_up(memory, step, tile.image, sum);
}

}  // namespace slipstream::augment
