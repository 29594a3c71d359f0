#pragma once

#include "cuda/augment/block.h"
#include "cuda/augment/store.h"

// Device code: passes of images with a stencil, which is a blur or a sharpening.
namespace slipstream::augment {

/// Planes of values, one per channel: first those before the stencil, then, for a blur, overwriting
/// the first columns, those that are filtered horizontally.
struct Planes {
  float* values;
  std::int32_t rows;  ///< rows of one channel
  std::int32_t pitch;
};

/// Fills the planes. Each warp computes some of the patches, which are ordered down the columns of
/// patches.
template <int C, typename GetPixel>
__device__ __forceinline__ void fill_planes(const PassProgram& pass, const Tile& tile,
                                            const Grid& grid, std::int32_t radius,
                                            const Planes& planes, const GetPixel& pixel_at) {
  constexpr std::int32_t kWarps = kBlurThreads / 32;
  const auto warp = static_cast<std::int32_t>(threadIdx.x / 32);
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const std::int32_t top = tile.top - radius;
  const std::int32_t left = tile.left - radius;
  // A constant if every tile is complete, so that the compiler can drop the comparisons.
  const std::int32_t below =
      pass.out_height % grid.height == 0 ? grid.height : pass.out_height - tile.top;
  const std::int32_t beside =
      pass.out_width % grid.width == 0 ? grid.width : pass.out_width - tile.left;
  const std::int32_t rows = min(grid.height, below) + 2 * radius;
  const std::int32_t columns = min(grid.width, beside) + 2 * radius;
  const std::int32_t down = (rows + kPatchHeight - 1) / kPatchHeight;
  const std::int32_t count = (columns + kPatchWidth - 1) / kPatchWidth * down;
  const std::int32_t end = (warp + 1) * count / kWarps;
  std::int32_t patch = warp * count / kWarps;
  std::int32_t column = patch / down * kPatchWidth + lane % kPatchWidth;
  std::int32_t row = patch % down * kPatchHeight + lane / kPatchWidth;
  for (; patch < end; column += kPatchWidth, row = lane / kPatchWidth) {
    const std::int32_t x = mirrored(left + min(column, columns - 1), pass.out_width);
    const std::int32_t mine = column < columns ? rows : 0;
    float* to = planes.values + row * planes.pitch + column;
#pragma unroll 1
    for (; patch < end && row < down * kPatchHeight; ++patch, row += kPatchHeight) {
      const std::int32_t y = mirrored(top + min(row, rows - 1), pass.out_height);
      const Pixel<C> pixel = pixel_at(y, x);
      for (int c = 0; row < mine && c < C; ++c) {
        to[c * planes.rows * planes.pitch] = pixel.value[c];
      }
      to += kPatchHeight * planes.pitch;
    }
  }
}

__device__ __forceinline__ void load_four(const float* from, float* to) {
  const float4 four = *reinterpret_cast<const float4*>(from);
  to[0] = four.x;
  to[1] = four.y;
  to[2] = four.z;
  to[3] = four.w;
}

__device__ __forceinline__ float blur_weight(const DrawnBlur& blur, std::int32_t radius,
                                             std::int32_t tap) {
  return blur.weight[tap < radius ? radius - tap : tap - radius];
}

__device__ __forceinline__ void add_tap(std::int32_t tap, float weight, float value, float& sum) {
  sum = tap == 0 ? weight * value : fused(weight, value, sum);
}

/// Computes kRun sums of 2 radius + 1 values of a row. A sliding window in registers reads each
/// value from shared memory once.
template <int R>
__device__ __forceinline__ void filter_run(const DrawnBlur& blur, std::int32_t radius,
                                           const float* from, float (&sums)[kRun]) {
  float window[2 * kRun];
  load_four(from, window);
  load_four(from + 4, window + 4);
#pragma unroll
  for (std::int32_t first = 0; first <= 2 * (R > 0 ? R : radius); first += kRun) {
    load_four(from + first + kRun, window + kRun);
    load_four(from + first + kRun + 4, window + kRun + 4);
#pragma unroll
    for (int tap = 0; tap < kRun; ++tap) {
      if (first + tap > 2 * radius) continue;
      const float weight = blur_weight(blur, radius, first + tap);
#pragma unroll
      for (int i = 0; i < kRun; ++i) add_tap(first + tap, weight, window[tap + i], sums[i]);
    }
#pragma unroll
    for (int i = 0; i < kRun; ++i) window[i] = window[kRun + i];
  }
}

/// Filters horizontally in place. A quarter of a warp processes eight rows, and a warp 32 columns
/// of them at a time, so that it has read every value that it overwrites.
template <int C, int R>
__device__ __forceinline__ void filter_across(const DrawnBlur& blur, std::int32_t radius,
                                              const Grid& grid, const Planes& planes) {
  constexpr int kWarps = kBlurThreads / 32;
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  for (auto group = static_cast<std::int32_t>(threadIdx.x / 32); group * 8 < C * planes.rows;
       group += kWarps) {
    const std::int32_t row = group * 8 + lane % 8;
    for (std::int32_t x = lane / 8 * kRun; x - lane / 8 * kRun < grid.width; x += 4 * kRun) {
      const bool is_mine = row < C * planes.rows && x < grid.width;
      float* at = planes.values + row * planes.pitch + x;
      float sums[kRun];
      if (is_mine) filter_run<R>(blur, radius, at, sums);
      __syncwarp();
      if (is_mine) {
        reinterpret_cast<float4*>(at)[0] = {sums[0], sums[1], sums[2], sums[3]};
        reinterpret_cast<float4*>(at)[1] = {sums[4], sums[5], sums[6], sums[7]};
      }
      __syncwarp();
    }
  }
}

/// Computes kRows pixels of a column.
template <int C, int R>
__device__ __forceinline__ void filtered_down(const DrawnBlur& blur, std::int32_t radius,
                                              const Planes& planes, std::int32_t y, std::int32_t x,
                                              Pixel<C> (&out)[kRows]) {
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const float* from = planes.values + (c * planes.rows + y) * planes.pitch + x;
    float weights[kRows] = {};  // weight of the current row in each of the sums
#pragma unroll
    for (std::int32_t row = 0; row < kRows + 2 * (R > 0 ? R : radius); ++row) {
      const float value = from[row * planes.pitch];
#pragma unroll
      for (int k = kRows - 1; k > 0; --k) weights[k] = weights[k - 1];
      weights[0] = blur_weight(blur, radius, min(row, 2 * radius));
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const std::int32_t tap = row - k;
        if (tap < 0 || tap > 2 * radius) continue;
        add_tap(tap, weights[k], value, out[k].value[c]);
      }
    }
  }
}

/// Copies kRows pixels of a column from the planes before the stencil.
template <int C>
__device__ __forceinline__ void copied(std::int32_t radius, const Planes& planes, std::int32_t y,
                                       std::int32_t x, Pixel<C> (&out)[kRows]) {
  for (int c = 0; c < C; ++c) {
    const float* from = planes.values + (c * planes.rows + y + radius) * planes.pitch + x + radius;
    for (int k = 0; k < kRows; ++k) out[k].value[c] = from[k * planes.pitch];
  }
}

/// Sharpens kRows pixels of a column; `out` holds them before. `top` and `left` are the position of
/// the first in the image, `y` and `x` in the tile.
template <int C>
__device__ __forceinline__ void sharpened_down(const ProgramStep& step, float weight,
                                               const Planes& planes, std::int32_t top,
                                               std::int32_t left, std::int32_t y, std::int32_t x,
                                               Pixel<C> (&out)[kRows]) {
  if (left == 0 || left + 1 >= step.in_width) return;
  for (int k = 0; k < kRows; ++k) {
    if (top + k == 0 || top + k + 1 >= step.in_height) continue;
    for (int c = 0; c < C; ++c) {
      const float* above = planes.values + (c * planes.rows + y + k) * planes.pitch + x;
      out[k].value[c] = sharpened(out[k].value[c],
                                  sum_around(above, above + planes.pitch, above + 2 * planes.pitch),
                                  weight, step.range);
    }
  }
}

/// Stores the pixels of a tile that the stencil does not blur. Works like filter_down().
template <int C>
__device__ __forceinline__ void finish_unblurred(const Image& image, const PassMemory& memory,
                                                 const Tile& tile, std::int32_t radius,
                                                 const Grid& grid, const Planes& planes,
                                                 std::byte* shared) {
  const PassProgram& pass = image.pass;
  const ProgramStep& step = pass.steps[pass.stencil];
  const bool is_sharpened = step.kind == StepKind::sharpen && applies(step, image.drawn);
  const std::int32_t count = grid.width * (grid.height / kRows);
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < count; i += kBlurThreads) {
    const std::int32_t x = i % grid.width;
    const std::int32_t y = i / grid.width * kRows;
    Pixel<C> out[kRows];
    copied<C>(radius, planes, y, x, out);
    if (is_sharpened) {
      sharpened_down<C>(step, sharpening_weight(step, image.drawn), planes, tile.top + y,
                        tile.left + x, y, x, out);
    }
    go_through<C>(image, pass.stencil + 1, pass.count, out);
    store_columns<C>(pass, memory, tile.image, tile.top + y, tile.left + x, out, shared);
  }
}

/// Filters vertically and stores the result. A thread processes one column, so that it reads a
/// value once for all rows that need it.
template <int C, int R>
__device__ __forceinline__ void filter_down(const Image& image, const PassMemory& memory,
                                            const DrawnBlur& blur, const Tile& tile,
                                            std::int32_t radius, const Grid& grid,
                                            const Planes& planes, std::byte* shared) {
  const PassProgram& pass = image.pass;
  const std::int32_t count = grid.width * (grid.height / kRows);
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < count; i += kBlurThreads) {
    const std::int32_t x = i % grid.width;
    const std::int32_t y = i / grid.width * kRows;
    Pixel<C> out[kRows];
    filtered_down<C, R>(blur, radius, planes, y, x, out);
    if (pass.steps[pass.stencil].range == Range::levels) {
      for (Pixel<C>& pixel : out) {
        for (float& value : pixel.value) value = to_level(value);
      }
    }
    go_through<C>(image, pass.stencil + 1, pass.count, out);
    store_columns<C>(pass, memory, tile.image, tile.top + y, tile.left + x, out, shared);
  }
}

/// Processes one tile. R is the radius if it is known at compile time, else 0.
template <int C, Way kWay, int R>
__device__ __forceinline__ void blur_block(const PassProgram& pass, const PassMemory& memory,
                                           const LaunchShape& shape) {
  extern __shared__ __align__(16) std::byte shared[];
  __shared__ BlockState state;
  const ProgramStep& step = pass.steps[pass.stencil];
  const std::int32_t radius = R > 0 ? R : step.radius;
  const Grid& grid = shape.grid;
  const Tile tile = block_tile(grid);
  const Planes planes = {reinterpret_cast<float*>(shared + shape.planes_at),
                         grid.height + 2 * radius, plane_pitch(grid.width, radius)};
  const Box wanted = clipped({tile.top - radius, tile.left - radius,
                              tile.top + grid.height + radius, tile.left + grid.width + radius},
                             pass.out_height, pass.out_width);
  const Image image = begin_block<C, kWay>(pass, memory, shape, tile, wanted, shared, state);
  with_pixels<C, kWay>(image, state, shape, shared + memory.drawn_bytes, [&](const auto& pixel_at) {
    fill_planes<C>(pass, tile, grid, radius, planes, pixel_at);
  });
  __syncthreads();
  if (step.kind == StepKind::sharpen || !applies(step, shared)) {
    return finish_unblurred<C>(image, memory, tile, radius, grid, planes, shared + shape.stores_at);
  }
  const DrawnBlur& blur = drawn_at<DrawnBlur>(step, shared);
  filter_across<C, R>(blur, radius, grid, planes);
  __syncthreads();
  filter_down<C, R>(image, memory, blur, tile, radius, grid, planes, shared + shape.stores_at);
}

}  // namespace slipstream::augment
