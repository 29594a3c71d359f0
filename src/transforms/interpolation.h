#pragma once

#include <cstdint>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/pixel.h"

// Computes where pixels come from, shared by the CPU and the GPU (see pixel.h). Coordinates count
// pixels; the centers of pixels are integers.
namespace slipstream {

/// Returns the largest integer that is not above v.
/// REQUIRES: abs(v) < 2^31
SLIPSTREAM_HOST_DEVICE inline std::int32_t whole_below(float v) {
#if defined(__CUDA_ARCH__)
  return __float2int_rd(v);
#else
  const auto toward_zero = static_cast<std::int32_t>(v);
  return static_cast<float>(toward_zero) > v ? toward_zero - 1 : toward_zero;
#endif
}

/// Returns the pixel that is nearest to a coordinate.
SLIPSTREAM_HOST_DEVICE inline std::int32_t nearest_pixel(float at) {
  return whole_below(at + 0.5F);
}

/// Two neighbors on one axis: the value is first + weight (second - first).
struct Neighbors {
  std::int32_t first;
  std::int32_t second;
  float weight;
};

/// Returns the neighbors of output i on an axis that is resized from `in` pixels. `scale` is in /
/// out, rounded to float. The coordinate is (i + 1 / 2) scale - 1 / 2, each operation rounded, and
/// at least 0.
SLIPSTREAM_HOST_DEVICE inline Neighbors resized_axis(std::int32_t i, std::int32_t in, float scale) {
  const float center = (static_cast<float>(i) + 0.5F) * scale - 0.5F;
  const float at = center > 0.0F ? center : 0.0F;
  const auto first = static_cast<std::int32_t>(at);
  const std::int32_t last = in - 1;
  if (first >= last) return {last, last, 0.0F};
  return {first, first + 1, at - static_cast<float>(first)};
}

SLIPSTREAM_HOST_DEVICE inline float between(float first, float second, float weight) {
  return fused(weight, second - first, first);
}

/// Converts a weight of a TriangleFilter to float32.
SLIPSTREAM_HOST_DEVICE inline float filtered_weight(std::int32_t weight) {
  return static_cast<float>(weight) * 0x1p-22F;
}

/// Returns the index of pixel i after mirroring the image at its first and last pixels.
/// REQUIRES: -size < i < 2 size - 1
SLIPSTREAM_HOST_DEVICE inline std::int32_t mirrored(std::int32_t i, std::int32_t size) {
  // Branch-free: as unsigned numbers, candidates below 0 are huge, so the smallest candidate is the
  // one inside the image.
  const auto from_first = static_cast<std::uint32_t>(i);
  const std::uint32_t below = 0U - from_first;
  const std::uint32_t beyond = below + 2 * static_cast<std::uint32_t>(size - 1);
  const std::uint32_t outside = below < beyond ? below : beyond;
  return static_cast<std::int32_t>(from_first < outside ? from_first : outside);
}

struct Coordinate {
  float x;
  float y;
};

SLIPSTREAM_HOST_DEVICE inline Coordinate source_coordinate(const DrawnWarp& warp, std::int32_t x,
                                                           std::int32_t y) {
  const auto to_x = static_cast<float>(x);
  const auto to_y = static_cast<float>(y);
  return {fused(warp.m[0], to_x, fused(warp.m[1], to_y, warp.m[2])),
          fused(warp.m[3], to_x, fused(warp.m[4], to_y, warp.m[5]))};
}

}  // namespace slipstream
