#pragma once

#include "cuda/augment/evaluate.h"
#include "cuda/augment/launch_shape.h"
#include "cuda/augment/pass_memory.h"

// Device code at the beginning of all kernels for images.
namespace slipstream::augment {

struct Tile {
  std::int32_t top;
  std::int32_t left;
  std::int64_t image;
};

__device__ __forceinline__ Tile block_tile(const Grid& grid) {
  const auto image = static_cast<std::int32_t>(blockIdx.x / static_cast<unsigned>(grid.tiles));
  const auto tile = static_cast<std::int32_t>(blockIdx.x % static_cast<unsigned>(grid.tiles));
  return {tile / grid.across * grid.height, tile % grid.across * grid.width, image};
}

/// Copies the sample's parameters to shared memory, where all threads can read them fast.
__device__ __forceinline__ void share_drawn(const PassMemory& memory, std::int64_t image,
                                            std::byte* shared) {
  const std::byte* from = memory.drawn + image * memory.drawn_bytes;
  for (unsigned i = threadIdx.x * 16; i < memory.drawn_bytes; i += blockDim.x * 16) {
    *reinterpret_cast<uint4*>(shared + i) = *reinterpret_cast<const uint4*>(from + i);
  }
}

__device__ __forceinline__ Source source_of_image(const PassProgram& pass, const PassMemory& memory,
                                                  std::int64_t image, int channels) {
  const std::int64_t bytes = static_cast<std::int64_t>(pass.in_height) * pass.in_width * channels *
                             (memory.range == Range::levels ? 1 : 4);
  return {memory.images + image * bytes, memory.range, pass.in_width};
}

/// Computes `prepared`. Called by one thread.
__device__ __forceinline__ void prepare(const PassProgram& pass, const PassMemory& memory,
                                        std::int64_t image, const std::byte* drawn,
                                        Prepared& prepared) {
  prepared = prepared_for(pass, drawn);
  set_statistics(pass, memory.statistics + image * memory.statistics_bytes,
                 memory.batch_size * memory.statistics_bytes, prepared);
}

/// Rows top to bottom - 1 and columns left to right - 1.
struct Box {
  std::int32_t top;
  std::int32_t left;
  std::int32_t bottom;
  std::int32_t right;

  __device__ std::int32_t rows() const { return bottom - top; }
  __device__ std::int32_t columns() const { return right - left; }
};

__device__ __forceinline__ Box clipped(const Box& box, std::int32_t height, std::int32_t width) {
  return {max(box.top, 0), max(box.left, 0), min(box.bottom, height), min(box.right, width)};
}

/// Computes the mask of `box`, which is inside the image, into `to`. Called by all threads;
/// contains barriers.
__device__ __forceinline__ MaskBits counted_out(const ProgramStep& step, const std::byte* drawn,
                                                const Box& box, std::uint8_t* to) {
  const RandomWords& key = drawn_at<DrawnMask>(step, drawn).key;
  const std::int32_t first = box.left / kMaskPixels - 1;  // first byte of a row
  const std::int32_t pitch = (box.right - 1) / kMaskPixels + 2 - first;
  const std::int32_t of_row = static_cast<std::int32_t>(blocks_of_row(step.in_width));
  const std::int32_t count = (box.rows() + 2) * pitch;
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < count;
       i += static_cast<std::int32_t>(blockDim.x)) {
    const std::int32_t row = i / pitch;
    const std::int32_t y = box.top - 1 + row;
    const std::int32_t b = first + i - row * pitch;
    std::uint32_t bits = 0;
    if (is_within(y, step.in_height) && is_within(b, of_row)) {
      bits = mask_bits(mask_words(key, static_cast<std::uint32_t>(y * of_row + b)), step.threshold);
      const std::int32_t beyond = (b + 1) * kMaskPixels - step.in_width;
      if (beyond > 0) bits &= 0xFFU >> beyond;
    }
    to[i] = static_cast<std::uint8_t>(bits);
  }
  __syncthreads();
  if (!step.dilates) return {to + pitch, box.top, first * kMaskPixels, pitch};
  std::uint8_t* grown = to + count;
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < box.rows() * pitch;
       i += static_cast<std::int32_t>(blockDim.x)) {
    const std::int32_t b = i % pitch;
    const std::uint8_t* at = to + pitch + i;
    const unsigned in_row = grown_bits(b > 0 ? at[-1] : 0U, at[0], b + 1 < pitch ? at[1] : 0U);
    grown[i] = static_cast<std::uint8_t>(in_row | at[-pitch] | at[pitch]);
  }
  __syncthreads();
  return {grown, box.top, first * kMaskPixels, pitch};
}

}  // namespace slipstream::augment
