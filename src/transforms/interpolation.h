#pragma once

#include <cstdint>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/pixel.h"
#include "transforms/resize_filter.h"

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

/// Returns the filter of a resize, for the axes that it filters.
SLIPSTREAM_HOST_DEVICE constexpr FilterKind filter_kind(Interpolation interpolation,
                                                        bool antialias) {
  if (interpolation != Interpolation::bicubic) return FilterKind::triangle;
  return antialias ? FilterKind::cubic : FilterKind::cubic_points;
}

/// Returns true if a resize of uint8 values filters both axes in fixed point. If not, it
/// interpolates in float32.
SLIPSTREAM_HOST_DEVICE constexpr bool filters_levels(Interpolation interpolation, bool antialias) {
  return antialias || interpolation == Interpolation::bicubic;
}

/// Returns the interpolation of masks in a resize that applies `interpolation` to images.
SLIPSTREAM_HOST_DEVICE constexpr Interpolation mask_interpolation(Interpolation interpolation) {
  return interpolation == Interpolation::nearest ? interpolation : Interpolation::nearest_exact;
}

/// Returns true if a resize filters an axis of float32 values. On other axes, every output has two
/// neighbors.
SLIPSTREAM_HOST_DEVICE constexpr bool is_filtered_axis(FilterKind filter, bool antialias,
                                                       std::int64_t in, std::int64_t out) {
  return filter != FilterKind::triangle || (antialias && in > out);
}

/// Returns the input pixel whose value output i gets in a resize without interpolation.
/// REQUIRES: `interpolation` is nearest or nearest_exact
SLIPSTREAM_HOST_DEVICE inline std::int32_t nearest_input(Interpolation interpolation,
                                                         std::int32_t i, std::int32_t in,
                                                         std::int32_t out) {
  if (interpolation == Interpolation::nearest_exact) {
    // This is the pixel that contains the center of pixel i, computed in integers.
    return static_cast<std::int32_t>((2 * std::int64_t{i} + 1) * in / (2 * std::int64_t{out}));
  }
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  const auto at = static_cast<std::int32_t>(static_cast<float>(i) * scale);
  return at < in - 1 ? at : in - 1;
}

/// Converts a weight of a ResizeFilter to float32.
SLIPSTREAM_HOST_DEVICE inline float filtered_weight(std::int32_t weight) {
  return static_cast<float>(weight) * 0x1p-22F;
}

/// Returns the index of the pixel whose value pixel i of a padded axis gets, or -1 if it gets the
/// fill value.
/// REQUIRES: mirroring the image once reaches i
SLIPSTREAM_HOST_DEVICE constexpr std::int32_t padded_index(PaddingMode mode, std::int32_t i,
                                                           std::int32_t size) {
  if (i >= 0 && i < size) return i;
  switch (mode) {
    case PaddingMode::edge:
      return i < 0 ? 0 : size - 1;
    case PaddingMode::reflect:
      return i < 0 ? -i : 2 * (size - 1) - i;
    case PaddingMode::symmetric:
      return i < 0 ? -1 - i : 2 * size - 1 - i;
    default:
      return -1;
  }
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
