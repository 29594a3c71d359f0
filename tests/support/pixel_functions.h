#pragma once

#include <algorithm>
#include <cmath>

#include "slipstream/transforms/pixel_op.h"

// User-defined pixel functions for tests.
namespace slipstream::test {

// clang-format off
SLIPSTREAM_PIXEL_FUNCTION(Solarize, {
  float threshold;
  float operator()(float value) const { return value < threshold ? value : 1.0F - value; }
});

/// Rounds twice, where a fused multiply-add would round once.
SLIPSTREAM_PIXEL_FUNCTION(Curve, {
  double weight;  // its alignment creates a gap if a float precedes it
  float factor;
  float offset;
  float operator()(float value) const {
    const float wide = static_cast<float>(weight * value + 0.1);
    return (value * factor + offset) / (wide * wide + 1.5F);
  }
});

SLIPSTREAM_PIXEL_FUNCTION(Swapped, {
  bool swaps;
  slipstream::Pixel<3> operator()(const slipstream::Pixel<3>& pixel) const {
    if (!swaps) return pixel;
    return {{pixel.value[2], pixel.value[0] * 0.3F + pixel.value[1] * 0.6F, pixel.value[0]}};
  }
});

SLIPSTREAM_PIXEL_FUNCTION(Softened, {
  template <int C>
  slipstream::Pixel<C> operator()(slipstream::Pixel<C> pixel) const {
    float most = pixel.value[0];
    for (int c = 1; c < C; ++c) most = std::max(most, pixel.value[c]);
    for (int c = 0; c < C; ++c) pixel.value[c] = std::sqrt(std::abs(most * pixel.value[c]));
    return pixel;
  }
});

/// A step function with a table.
SLIPSTREAM_PIXEL_FUNCTION(Looked, {
  float table[9];
  static constexpr float kScale = 8.0F;
  static constexpr float kShifts[3] = {0.0F, 0.5F, 0.25F};
  static std::int32_t place(float value) {
    return static_cast<std::int32_t>(std::floor(std::clamp(value, 0.0F, 1.0F) * kScale));
  }
  float operator()(float value) const { return std::fma(value, kShifts[place(value) % 3], table[place(value)]); }
});

SLIPSTREAM_PIXEL_FUNCTION(Multiplied, {
  float by;
  float operator()(float value) const { return value * by; }
});

/// Calls every function of the standard library that a pixel function may use.
SLIPSTREAM_PIXEL_FUNCTION(Mathematical, {
  float operator()(float value) const {
    const float wide = value * 20.0F - 7.25F;
    const double twice = std::fma(std::abs(2.0 * wide), 0.1, std::floor(0.3 * wide));
    const float whole = std::ceil(wide) + std::floor(wide) * 0.5F + std::trunc(wide) * 0.25F;
    const float root = std::copysign(std::sqrt(std::abs(wide)), wide) + std::round(wide * 1.5F);
    const std::int32_t bounded = std::clamp(static_cast<std::int32_t>(wide), -5, 9);
    if (std::isnan(root) || std::isnan(twice)) return 0.0F;
    return std::fma(whole, root, std::min(std::max(wide, 0.5F), 7.5F)) +
           static_cast<float>(twice) + static_cast<float>(std::abs(bounded));
  }
});

namespace first {
SLIPSTREAM_PIXEL_FUNCTION(Same, { float operator()(float value) const { return value + 0.25F; } });
}
namespace second {
SLIPSTREAM_PIXEL_FUNCTION(Same, { float operator()(float value) const { return value * 3.0F; } });
}
/// Has names that the library uses, too.
SLIPSTREAM_PIXEL_FUNCTION(Image, {
  struct Stage { float by; };
  Stage kPass;
  float operator()(float value) const { return value - kPass.by; }
});
// clang-format on

inline std::vector<NamedOp> clashing_chain() {
  return {{"first", PixelOp{first::Same{}}},
          {"second", PixelOp{second::Same{}}},
          {"first again", PixelOp{first::Same{}}},
          {"image", PixelOp{Image{{0.5F}}}}};
}

constexpr Looked kTable{{0.9F, 0.1F, 0.5F, 0.3F, 0.7F, 0.2F, 0.6F, 0.4F, 0.8F}};

struct RandomSolarize : DrawnPixelOp<Solarize> {
  static constexpr std::string_view kName = "random_solarize";
  void validate() const {}
  bool is_random() const { return true; }
  Solarize draw(const RandomKey& key, const Shape&) const { return {RandomStream(key).uniform()}; }
};

struct RandomCurve : DrawnPixelOp<Curve> {
  static constexpr std::string_view kName = "random_curve";
  void validate() const {}
  bool is_random() const { return true; }
  Curve draw(const RandomKey& key, const Shape&) const {
    RandomStream random(key);
    const float factor = random.uniform();
    const float offset = random.uniform();
    return {random.uniform(), factor, offset};
  }
};

struct RandomSwap : DrawnPixelOp<Swapped> {
  static constexpr std::string_view kName = "random_swap";
  void validate() const {}
  bool is_random() const { return true; }
  Swapped draw(const RandomKey& key, const Shape&) const {
    return {RandomStream(key).below(2) == 1};
  }
};

}  // namespace slipstream::test
