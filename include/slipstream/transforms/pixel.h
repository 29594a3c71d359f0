#pragma once

#include <cstdint>

#include "slipstream/core/host_device.h"

// Arithmetic on single pixels, in IEEE float32. The CPU and the GPU share this definition. Neither
// compiler may contract a multiplication and an addition to an fma, so both give the same bits.
namespace slipstream {

/// One pixel of C channels. Its values are in the units of the image; those of a uint8 image are
/// integers from 0 to 255.
template <int C>
struct Pixel {
  float value[C];
};

/// What the values of an image mean.
enum class Range : std::uint8_t {
  levels,  ///< uint8: 0 to 255, rounded after every operation
  unit,    ///< float32: white is 1
};

/// Returns a b + c, rounded once (fma).
SLIPSTREAM_HOST_DEVICE inline float fused(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

/// Clamps `v` to the range from `low` to `high`.
SLIPSTREAM_HOST_DEVICE inline float clamped(float v, float low, float high) {
  return v < low ? low : (v > high ? high : v);
}

/// Rounds `v` to the nearest integer, ties to even.
/// REQUIRES: 0 <= v < 2^22
SLIPSTREAM_HOST_DEVICE inline float rounded(float v) {
  // 2^23: adding it leaves no bits for a fraction, so the addition rounds.
  constexpr float kWhole = 8388608.0F;
  return (v + kWhole) - kWhole;
}

/// Rounds `v` to the nearest level, 0 to 255, ties to even.
SLIPSTREAM_HOST_DEVICE inline float to_level(float v) { return rounded(clamped(v, 0.0F, 255.0F)); }

/// Returns `level` / 255, rounded once. Computed without a division, by multiplying with the
/// inverse in two parts. Source: Brisebarre, Muller and Raina, "Accelerating correctly rounded
/// floating-point division when the divisor is known in advance", 2004.
/// REQUIRES: `level` is an integer from 0 to 255
SLIPSTREAM_HOST_DEVICE inline float from_level(float level) {
  constexpr float kInverse = 1.0F / 255.0F;
  constexpr float kRest = static_cast<float>(1.0 / 255.0 - double{kInverse});
  return fused(level, kInverse, level * kRest);
}

/// Applies a pixel function (pixel_op.h) to `pixel`.
template <int C, typename Function>
SLIPSTREAM_HOST_DEVICE inline Pixel<C> changed(const Function& function, Pixel<C> pixel) {
  if constexpr (requires { function(pixel); }) {
    return function(pixel);
  } else {
    for (int c = 0; c < C; ++c) pixel.value[c] = function(pixel.value[c]);
    return pixel;
  }
}

}  // namespace slipstream
