#pragma once

#include "cuda/augment/evaluate.h"

// Device code: loads adjacent pixels of a source with as few instructions as their alignment
// allows.
namespace slipstream::augment {

/// Loads 4 C bytes from any address, with aligned loads of 4 bytes that are shifted into place.
template <int C>
__device__ __forceinline__ void load_bytes(const std::byte* from, std::uint32_t (&words)[C]) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const auto* aligned = reinterpret_cast<const std::uint32_t*>(address & ~std::uintptr_t{3});
  const auto shift = static_cast<std::uint32_t>(address & 3U) * 8;
  std::uint32_t next = aligned[0];
#pragma unroll
  for (int i = 0; i < C; ++i) {
    const std::uint32_t word = next;
    next = i + 1 < C || shift != 0 ? aligned[i + 1] : 0;
    words[i] = __funnelshift_r(word, next, shift);
  }
}

template <int C>
__device__ __forceinline__ void load_floats(const std::byte* from, float (&values)[4 * C]) {
  const auto* floats = reinterpret_cast<const float*>(from);
  if (reinterpret_cast<std::uintptr_t>(from) % 16 != 0) {
#pragma unroll
    for (int i = 0; i < 4 * C; ++i) values[i] = floats[i];
    return;
  }
#pragma unroll
  for (int i = 0; i < C; ++i) {
    const float4 four = reinterpret_cast<const float4*>(from)[i];
    values[4 * i] = four.x;
    values[4 * i + 1] = four.y;
    values[4 * i + 2] = four.z;
    values[4 * i + 3] = four.w;
  }
}

/// Returns true if no aligned word of 4 bytes is partly outside of the batch, so that loading whole
/// words is valid.
template <int C>
__device__ __forceinline__ bool has_whole_words(const Image& image) {
  const PassProgram& pass = image.pass;
  return image.source.range != Range::levels || pass.in_height * pass.in_width * C % 4 == 0;
}

/// Loads pixels (y, x) to (y, x + 3) after plain moves, all of which are inside the image.
/// REQUIRES: has_whole_words()
template <int C>
__device__ __forceinline__ void load_run(const Image& image, std::int32_t y, std::int32_t x,
                                         Pixel<C> (&run)[4]) {
  const PlainMove& move = image.prepared.before;
  const Source& source = image.source;
  const bool is_reversed = image.pass.has_plain_flips && move.right < 0;
  const std::int32_t first = is_reversed ? move.left - x - 3 : move.left + x;
  const std::int32_t row = image.pass.has_plain_flips ? move.top + move.down * y : move.top + y;
  const std::int64_t at = (static_cast<std::int64_t>(row) * source.width + first) * C;
  float values[4 * C];
  if (source.range == Range::levels) {
    std::uint32_t words[C];
    load_bytes<C>(source.pixels + at, words);
#pragma unroll
    for (int i = 0; i < 4 * C; ++i) {
      values[i] = static_cast<float>(words[i / 4] >> (i % 4 * 8) & 0xFFU);
    }
  } else {
    load_floats<C>(source.pixels + at * 4, values);
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#pragma unroll
    for (int c = 0; c < C; ++c) {
      run[k].value[c] = is_reversed ? values[(3 - k) * C + c] : values[k * C + c];
    }
  }
}

}  // namespace slipstream::augment
