#pragma once

#include <cstdint>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/pixel.h"

// Arithmetic of color operations (color.h, transforms.h), shared by the CPU and the GPU.
namespace slipstream {

/// Converts a result to the range of the image: rounded to a level, or clamped to 0 to 1.
SLIPSTREAM_HOST_DEVICE inline float within_range(float v, Range range) {
  return range == Range::levels ? to_level(v) : clamped(v, 0.0F, 1.0F);
}

/// factor v + (1 - factor) other
SLIPSTREAM_HOST_DEVICE inline float blended(float v, float other, float factor, Range range) {
  return within_range(fused(factor, v, (1.0F - factor) * other), range);
}

/// Returns 0.2989 R + 0.587 G + 0.114 B, accumulated in this order, and rounded for levels. The
/// weights are torchvision's (ITU-R BT.601). With one channel, returns that channel.
template <int C>
SLIPSTREAM_HOST_DEVICE inline float gray(const Pixel<C>& pixel, Range range) {
  static_assert(C == 1 || C == 3);
  if constexpr (C == 1) {
    return pixel.value[0];
  } else {
    constexpr float kRed = 0.2989F;
    constexpr float kGreen = 0.587F;
    constexpr float kBlue = 0.114F;
    const float red = kRed * pixel.value[0];
    const float sum = fused(kBlue, pixel.value[2], fused(kGreen, pixel.value[1], red));
    return range == Range::levels ? rounded(sum) : sum;
  }
}

/// Returns a pixel's contribution to the sum that mean_level() takes: its gray level, or its gray
/// clamped to 0 to 1, times 2^20 and rounded (0 for NaN). These are integers, so the order of
/// summation does not change the result.
template <int C>
SLIPSTREAM_HOST_DEVICE inline std::int32_t gray_sum_term(const Pixel<C>& pixel, Range range) {
  const float value = gray(pixel, range);
  if (range == Range::levels) return static_cast<std::int32_t>(value);
  const float at_most_1 = value < 1.0F ? value : 1.0F;
  const float share = value > 0.0F ? at_most_1 : 0.0F;
  return static_cast<std::int32_t>(rounded(share * 0x1p20F));
}

/// Returns the mean gray of `pixels` pixels. `sum` is the sum of their gray_sum_term().
/// REQUIRES: pixels > 0
SLIPSTREAM_HOST_DEVICE inline float mean_level(std::int64_t sum, std::int64_t pixels, Range range) {
  const double unit = range == Range::levels ? 1.0 : 0x1p20;
  return static_cast<float>(static_cast<double>(sum) / (static_cast<double>(pixels) * unit));
}

template <int C>
SLIPSTREAM_HOST_DEVICE inline Pixel<C> with_brightness(Pixel<C> pixel, float factor, Range range) {
  for (int c = 0; c < C; ++c) pixel.value[c] = within_range(factor * pixel.value[c], range);
  return pixel;
}

template <int C>
SLIPSTREAM_HOST_DEVICE inline Pixel<C> with_contrast(Pixel<C> pixel, float factor, float mean,
                                                     Range range) {
  for (int c = 0; c < C; ++c) pixel.value[c] = blended(pixel.value[c], mean, factor, range);
  return pixel;
}

SLIPSTREAM_HOST_DEVICE inline Pixel<3> with_saturation(Pixel<3> pixel, float factor, Range range) {
  const float y = gray(pixel, range);
  for (int c = 0; c < 3; ++c) pixel.value[c] = blended(pixel.value[c], y, factor, range);
  return pixel;
}

/// Returns one channel of the color with this `hue` (in sixths of the circle, 0 to 6). `most` is
/// the color's largest channel and `span` the difference to its smallest. The channel is most -
/// span min(k, 4 - k), with the minimum clamped to 0 to 1 and k = (hue + shift) modulo 6.
SLIPSTREAM_HOST_DEVICE inline float hue_channel(float hue, float shift, float most, float span) {
  const float turned = hue + shift;
  const float k = turned < 6.0F ? turned : turned - 6.0F;
  const float other = 4.0F - k;
  return fused(-span, clamped(k < other ? k : other, 0.0F, 1.0F), most);
}

/// Rotates the HSV hue by `turn` of the circle (-0.5 to 0.5). The largest and the smallest channel
/// value do not change. HSV: A. R. Smith, "Color gamut transform pairs", SIGGRAPH 1978.
SLIPSTREAM_HOST_DEVICE inline Pixel<3> with_hue(const Pixel<3>& pixel, float turn, Range range) {
  const float red = pixel.value[0];
  const float green = pixel.value[1];
  const float blue = pixel.value[2];
  const float red_or_green = red < green ? green : red;
  const float most = red_or_green < blue ? blue : red_or_green;
  const float green_or_red = red < green ? red : green;
  const float least = blue < green_or_red ? blue : green_or_red;
  const float span = most - least;
  const float by_red = green - blue;
  const float by_green = blue - red;
  const float by_blue = red - green;
  const float not_red = most == green ? by_green : by_blue;
  const float not_red_place = most == green ? 2.0F : 4.0F;
  const float place = most == red ? 0.0F : not_red_place;
  const float part = (most == red ? by_red : not_red) / (span > 0.0F ? span : 1.0F);
  const float turned = place + part + 6.0F * turn;
  const float not_negative = turned < 0.0F ? turned + 6.0F : turned;
  const float hue = not_negative < 6.0F ? not_negative : not_negative - 6.0F;
  return {{within_range(hue_channel(hue, 5.0F, most, span), range),
           within_range(hue_channel(hue, 3.0F, most, span), range),
           within_range(hue_channel(hue, 1.0F, most, span), range)}};
}

/// Applies one step of `drawn` that changes something. `mean` is used by contrast. With one channel
/// only brightness and contrast are applied.
template <int C>
SLIPSTREAM_HOST_DEVICE inline Pixel<C> jittered_by(Jitter step, const Pixel<C>& pixel,
                                                   const DrawnJitter& drawn, float mean,
                                                   Range range) {
  if (step == Jitter::brightness) return with_brightness(pixel, drawn.brightness, range);
  if (step == Jitter::contrast) return with_contrast(pixel, drawn.contrast, mean, range);
  if constexpr (C == 3) {
    if (step == Jitter::saturation) return with_saturation(pixel, drawn.saturation, range);
    return with_hue(pixel, drawn.hue, range);
  }
  return pixel;
}

/// Applies the steps at indices `first` to `last` - 1 of the generated order. Use 0 to
/// contrast_place() for the sum of gray_sum_term(), and contrast_place() to kSteps, or all, for the
/// result.
template <int C>
SLIPSTREAM_HOST_DEVICE inline Pixel<C> jittered(Pixel<C> pixel, const DrawnJitter& drawn,
                                                float mean, Range range, int first, int last) {
  for (int place = first; place < last; ++place) {
    const Jitter step = drawn.order[place];
    if (drawn.has(step)) pixel = jittered_by(step, pixel, drawn, mean, range);
  }
  return pixel;
}

/// Sets all channels to the pixel's gray.
SLIPSTREAM_HOST_DEVICE inline Pixel<3> grayed(const Pixel<3>& pixel, Range range) {
  const float y = gray(pixel, range);
  return {{y, y, y}};
}

/// A float32 matrix in row-major order, and the offset of each row's result.
struct ColorMatrix {
  float row[3][3];
  float offset[3];
};

/// Computes each channel as offset, then plus red, green and blue times their weights, with fma in
/// this order.
SLIPSTREAM_HOST_DEVICE inline Pixel<3> converted(const Pixel<3>& pixel, const ColorMatrix& by) {
  Pixel<3> out;
  for (int c = 0; c < 3; ++c) {
    const float red = fused(by.row[c][0], pixel.value[0], by.offset[c]);
    out.value[c] = fused(by.row[c][2], pixel.value[2], fused(by.row[c][1], pixel.value[1], red));
  }
  return out;
}

/// Mean and standard deviation of each channel in float32.
struct ChannelStatistics {
  float mean[4];
  float std[4];
};

SLIPSTREAM_HOST_DEVICE inline float normalized(float value, float mean, float std) {
  return (value - mean) / std;
}

SLIPSTREAM_HOST_DEVICE inline float scaled(float value, float divisor) { return value / divisor; }

}  // namespace slipstream
