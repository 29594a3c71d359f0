#pragma once

#include <cstdint>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/pixel.h"
#include "transforms/color_math.h"

// Arithmetic of the operations in adjust.h and auto_augment.h, shared by the CPU and the GPU.
namespace slipstream {

/// The value of white.
SLIPSTREAM_HOST_DEVICE inline float white(Range range) {
  return range == Range::levels ? 255.0F : 1.0F;
}

/// Clamps a result to the range of the image. Levels are rounded toward 0, as in torchvision.
/// torchvision keeps NaN, which becomes black here.
SLIPSTREAM_HOST_DEVICE inline float truncated(float v, Range range) {
  const float most = white(range);
  const float not_negative = v > 0.0F ? v : 0.0F;
  const float inside = not_negative < most ? not_negative : most;
  return range == Range::levels ? static_cast<float>(static_cast<std::int32_t>(inside)) : inside;
}

SLIPSTREAM_HOST_DEVICE inline float inverted(float v, Range range) { return white(range) - v; }

SLIPSTREAM_HOST_DEVICE inline float solarized(float v, float threshold, Range range) {
  return v >= threshold ? inverted(v, range) : v;
}

/// REQUIRES: `bits` is 0 to 8
SLIPSTREAM_HOST_DEVICE inline float posterized(float v, std::int32_t bits, Range range) {
  // All factors are powers of two, so nothing is rounded except by the conversion to an integer.
  const auto steps = static_cast<float>(1 << bits);
  const float unit = range == Range::levels ? 256.0F : 1.0F;
  const float step = v * (steps / unit);
  const float not_negative = step > 0.0F ? step : 0.0F;
  const float inside = not_negative < steps - 1.0F ? not_negative : steps - 1.0F;
  return static_cast<float>(static_cast<std::int32_t>(inside)) * (unit / steps);
}

/// The smallest and the largest value of a channel.
struct Extremes {
  float least;
  float most;
};

SLIPSTREAM_HOST_DEVICE inline float stretched(float v, const Extremes& of, Range range) {
  const bool is_flat = of.most == of.least;
  const float scale = (of.most - of.least) * (1.0F / white(range));
  return truncated((v - (is_flat ? 0.0F : of.least)) / (is_flat ? 1.0F : scale), range);
}

/// Returns the threshold of the augmentation solarize.
SLIPSTREAM_HOST_DEVICE inline float solarize_threshold(float magnitude) {
  return static_cast<float>(255 * static_cast<double>(magnitude));
}

/// Returns the weight that sharpened() takes, for a sharpness factor.
SLIPSTREAM_HOST_DEVICE inline float sharpness_weight(double factor) {
  return static_cast<float>(1 - factor);
}

/// Returns `value` moved away from the mean around it. `around` is the sum of the 8 neighbors in
/// row-major order, starting from 0.
SLIPSTREAM_HOST_DEVICE inline float sharpened(float value, float around, float weight,
                                              Range range) {
  constexpr float kCenter = 5.0F;
  constexpr float kWeights = 13.0F;
  const float mean = fused(kCenter, value, around) / kWeights;
  // The mean of levels is never halfway between two, because the sum of weights is odd.
  const float smooth = range == Range::levels ? rounded(mean) : mean;
  return truncated(fused(weight, smooth - value, value), range);
}

/// Returns the gray level of a pixel of levels, rounded toward 0.
template <int C>
SLIPSTREAM_HOST_DEVICE inline float truncated_gray(const Pixel<C>& pixel) {
  return truncated(gray(pixel, Range::unit), Range::levels);
}

/// Returns the level (1 + magnitude) v - magnitude other, rounded toward 0.
SLIPSTREAM_HOST_DEVICE inline float truncated_blend(float v, float other, float magnitude) {
  return truncated(fused(-magnitude, other, (1.0F + magnitude) * v), Range::levels);
}

/// Returns the level (1 + magnitude) v, rounded toward 0.
SLIPSTREAM_HOST_DEVICE inline float brightened(float v, float magnitude) {
  return truncated((1.0F + magnitude) * v, Range::levels);
}

/// Moves the channels of a pixel away from its gray level.
SLIPSTREAM_HOST_DEVICE inline Pixel<3> with_color(Pixel<3> pixel, float magnitude) {
  const float y = truncated_gray(pixel);
  for (int c = 0; c < 3; ++c) pixel.value[c] = truncated_blend(pixel.value[c], y, magnitude);
  return pixel;
}

/// Returns the step that equalized() takes. `largest` is the number of pixels with the largest
/// level of the channel.
SLIPSTREAM_HOST_DEVICE inline std::int64_t equalizer_step(std::int64_t pixels,
                                                          std::int64_t largest) {
  return (pixels - largest) / 255;
}

/// Returns the new value of `level` for RandomEqualize. `below` is the number of pixels with a
/// lower level.
SLIPSTREAM_HOST_DEVICE inline std::int32_t equalized(std::int32_t level, std::int64_t below,
                                                     std::int64_t step) {
  if (step == 0) return level;
  const std::int64_t changed = (below + step / 2) / step;
  return static_cast<std::int32_t>(changed < 255 ? changed : 255);
}

}  // namespace slipstream
