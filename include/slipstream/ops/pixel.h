#pragma once

#include <cstdint>

#include "slipstream/core/host_device.h"

// The arithmetic of single pixels: one definition for the CPU and the GPU, in IEEE float32 (neither
// is allowed to contract), so that both have the same bits.
namespace slipstream {

/// One pixel of C channels. Of an image of levels (u8): whole numbers, 0 to 255.
template <int C>
struct Pixel {
  float value[C];
};

/// What the values of an image mean.
enum class Range : std::uint8_t {
  levels,  ///< u8: 0 to 255, rounded after every operation
  unit,    ///< f32: white is 1
};

/// a b + c, rounded once.
SLIPSTREAM_HOST_DEVICE inline float fused(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

SLIPSTREAM_HOST_DEVICE inline float clamped(float v, float low, float high) {
  return v < low ? low : (v > high ? high : v);
}

/// The nearest whole number, halves to even. REQUIRES: 0 <= v < 2^22
SLIPSTREAM_HOST_DEVICE inline float rounded(float v) {
  constexpr float kWhole = 8388608.0F;  // 2^23: a float of this size has no fraction
  return (v + kWhole) - kWhole;
}

SLIPSTREAM_HOST_DEVICE inline float to_level(float v) { return rounded(clamped(v, 0.0F, 255.0F)); }

/// Level / 255, rounded once, without a division: by the inverse in two parts (Brisebarre, Muller
/// and Raina, "Accelerating correctly rounded floating-point division when the divisor is known in
/// advance", 2004). REQUIRES: a whole number, 0 to 255
SLIPSTREAM_HOST_DEVICE inline float from_level(float level) {
  constexpr float kInverse = 1.0F / 255.0F;
  constexpr float kRest = static_cast<float>(1.0 / 255.0 - double{kInverse});
  return fused(level, kInverse, level * kRest);
}

/// What a pixel function (pixel_op.h) makes of a pixel.
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
