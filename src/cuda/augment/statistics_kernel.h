#pragma once

#include "cuda/augment/measure.h"
#include "cuda/augment/plain_kernel.h"

// Device code: collects Statistics.
namespace slipstream::augment {

__device__ __forceinline__ void add_sum(std::int64_t sum, Statistics& to) {
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_down_sync(~0U, sum, apart);
  if (threadIdx.x % 32 != 0) return;
  atomicAdd(reinterpret_cast<unsigned long long*>(&to.sum), static_cast<unsigned long long>(sum));
}

__device__ __forceinline__ void add_most(std::uint32_t most, std::uint32_t& to) {
  for (int apart = 16; apart > 0; apart /= 2) {
    const std::uint32_t other = __shfl_down_sync(~0U, most, apart);
    most = other > most ? other : most;
  }
  if (threadIdx.x % 32 == 0) atomicMax(&to, most);
}

/// Adds a thread's part of the statistics. Called by all threads of a block. `counts` are the
/// block's.
template <int C>
__device__ __forceinline__ void add_up(Measure measure, const Collected<C>& mine,
                                       const std::uint32_t* counts, Statistics& to) {
  if (measure == Measure::sum) add_sum(mine.sum, to);
  if (measure == Measure::extremes) {
    for (int c = 0; c < C; ++c) add_most(mine.least[c], to.least[c]);
    for (int c = 0; c < C; ++c) add_most(mine.most[c], to.most[c]);
  }
  if (measure != Measure::counts) return;
  __syncthreads();
  for (unsigned i = threadIdx.x; i < C * kLevels; i += blockDim.x) {
    if (counts[i] > 0) atomicAdd(&to.count[i / kLevels][i % kLevels], counts[i]);
  }
}

/// Processes one tile of `before`, a separate pass (before_statistics()), for `step`.
template <int C, Way kWay>
__device__ __forceinline__ void statistics_block(const PassProgram& before, const ProgramStep& step,
                                                 const PassMemory& memory,
                                                 const LaunchShape& shape) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ std::uint32_t counts[C * kLevels];
  const Tile tile = block_tile(shape.grid);
  const Measure measure = measured(step, memory.drawn + tile.image * memory.drawn_bytes);
  if (measure == Measure::none) return;
  // The barriers before the first pixel follow.
  for (unsigned i = threadIdx.x; measure == Measure::counts && i < C * kLevels; i += blockDim.x) {
    counts[i] = 0;
  }
  Collected<C> mine;
  const auto add = [&](const Image& image, const Pixel<C>& pixel) {
    if (measure == Measure::sum) mine.sum += sum_term<C>(image, step, pixel);
    if (measure == Measure::extremes) mine.add(pixel);
    for (int c = 0; measure == Measure::counts && c < C; ++c) {
      atomicAdd(&counts[c * kLevels + static_cast<std::int32_t>(pixel.value[c])], 1U);
    }
  };
  each_four_of_tile<C, kWay>(before, memory, shape, tile, shared,
                             [&](const Image& image, const auto& at, const Pixel<C>(&run)[4]) {
                               for (int k = 0; k < 4; ++k) {
                                 const bool is_mine =
                                     at.y < before.out_height && at.x_at(k) < before.out_width;
                                 if (is_mine) add(image, run[k]);
                               }
                             });
  add_up<C>(measure, mine, counts, image_statistics(memory, step.statistic, tile.image));
}

}  // namespace slipstream::augment
