#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "slipstream/transforms/color.h"
#include "support/thrown.h"
#include "transforms/color_math.h"
#include "transforms/image_shapes.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <typename T>
constexpr Range kRangeOf = std::is_same_v<T, std::uint8_t> ? Range::levels : Range::unit;

// Computes the definition value by value, for the pixels of an image as floats.
struct Reference {
  std::vector<float> values;
  std::size_t channels;
  Range range;

  float finished(float v) const {
    if (range == Range::unit) return std::min(std::max(v, 0.0F), 1.0F);
    return std::nearbyint(std::min(std::max(v, 0.0F), 255.0F));
  }
  float gray_level(std::size_t pixel) const {
    const float* p = &values[pixel * channels];
    if (channels == 1) return p[0];
    const float y = std::fma(0.114F, p[2], std::fma(0.587F, p[1], 0.2989F * p[0]));
    return range == Range::levels ? std::nearbyint(y) : y;
  }
  float mean() const {
    const std::size_t pixels = values.size() / channels;
    const double unit = range == Range::levels ? 1 : 1'048'576;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < pixels; ++i) {
      const double most = range == Range::levels ? 255 : 1;
      sum += std::llrint(std::clamp<double>(gray_level(i), 0, most) * unit);
    }
    return static_cast<float>(static_cast<double>(sum) / (static_cast<double>(pixels) * unit));
  }
  void blend(std::size_t i, float factor, float other) {
    values[i] = finished(std::fma(factor, values[i], (1 - factor) * other));
  }

  void apply(Jitter step, const DrawnJitter& drawn) {
    const float average = mean();
    for (std::size_t pixel = 0; pixel < values.size() / channels; ++pixel) {
      const float y = gray_level(pixel);
      float* p = &values[pixel * channels];
      if (step == Jitter::hue && drawn.hue != 0 && channels == 3) {
        // with_hue() is compared with HSV in double precision below.
        const Pixel<3> turned = with_hue({{p[0], p[1], p[2]}}, drawn.hue, range);
        std::copy_n(turned.value, 3, p);
      }
      for (std::size_t i = pixel * channels; i < (pixel + 1) * channels; ++i) {
        if (step == Jitter::brightness) values[i] = finished(drawn.brightness * values[i]);
        if (step == Jitter::contrast) blend(i, drawn.contrast, average);
        if (step == Jitter::saturation && channels == 3) blend(i, drawn.saturation, y);
      }
    }
  }
};

template <typename T>
void expect_jittered(const DrawnJitter& drawn, const Pixels<T>& image) {
  const auto channels = static_cast<std::size_t>(image.shape[2]);
  Reference expected{{image.values.begin(), image.values.end()}, channels, kRangeOf<T>};
  for (const Jitter step : drawn.order) expected.apply(step, drawn);
  const auto out = applied<T>(ColorJitter{}, drawn, FieldKind::image, image);
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    ASSERT_EQ(static_cast<float>(out.values[i]), expected.values[i])
        << i << " of " << to_string(image.shape);
  }
}

void expect_jittered(const DrawnJitter& drawn, std::int64_t channels) {
  for (const Shape& shape : list_shapes(channels)) {
    expect_jittered(drawn, level_image(shape));
    expect_jittered(drawn, unit_image(shape));
  }
}

DrawnJitter make_drawn(float brightness, float contrast, float saturation, float hue) {
  DrawnJitter drawn;
  drawn.brightness = brightness;
  drawn.contrast = contrast;
  drawn.saturation = saturation;
  drawn.hue = hue;
  return drawn;
}

TEST(ColorJitter, EachPartMatchesTheReference) {
  for (const float factor : {0.0F, 0.3F, 0.7F, 1.4F, 2.5F, 1000.0F}) {
    for (const std::int64_t channels : {1, 3}) {
      expect_jittered(make_drawn(factor, 1, 1, 0), channels);
      expect_jittered(make_drawn(1, factor, 1, 0), channels);
    }
    expect_jittered(make_drawn(1, 1, factor, 0), 3);
  }
}

TEST(ColorJitter, PartsAreAppliedInTheDrawnOrder) {
  DrawnJitter drawn = make_drawn(1.3F, 0.6F, 1.7F, -0.2F);
  int orders = 0;
  do {
    expect_jittered(drawn, level_image({9, 31, 3}));
    expect_jittered(drawn, unit_image({9, 31, 3}));
    expect_jittered(drawn, level_image({9, 31, 1}));
    ++orders;
  } while (std::next_permutation(std::begin(drawn.order), std::end(drawn.order)));
  EXPECT_EQ(orders, 24);
}

// Jitters in two passes, as a device does: the first computes the sum of the image before contrast,
// the second everything.
template <typename T>
void expect_two_passes(const DrawnJitter& drawn, const Pixels<T>& image) {
  constexpr Range kRange = kRangeOf<T>;
  const auto out = applied<T>(ColorJitter{}, drawn, FieldKind::image, image);
  const auto pixel = [&](std::size_t i) {
    Pixel<3> p;
    for (std::size_t c = 0; c < 3; ++c) p.value[c] = static_cast<float>(image.values[3 * i + c]);
    return p;
  };
  const std::size_t pixels = image.values.size() / 3;
  const int middle = drawn.contrast_place();
  std::int64_t sum = 0;
  for (std::size_t i = pixels; i > 0; --i) {
    sum += gray_sum_term(jittered(pixel(i - 1), drawn, kNaN, kRange, 0, middle), kRange);
  }
  const float mean = mean_level(sum, static_cast<std::int64_t>(pixels), kRange);
  for (std::size_t i = 0; i < pixels; ++i) {
    const auto whole = jittered(pixel(i), drawn, mean, kRange, 0, DrawnJitter::kSteps);
    const auto begun = jittered(pixel(i), drawn, mean, kRange, 0, middle);
    const auto rest = jittered(begun, drawn, mean, kRange, middle, DrawnJitter::kSteps);
    for (std::size_t c = 0; c < 3; ++c) {
      ASSERT_EQ(static_cast<float>(out.values[3 * i + c]), whole.value[c]);
      ASSERT_EQ(rest.value[c], whole.value[c]);
    }
  }
}

TEST(ColorJitter, TwoStepFormGivesSameValues) {
  const ColorJitter op{{0.6, 1.4}, {0.6, 1.4}, {0.6, 1.4}, {-0.5, 0.5}};
  for (std::uint64_t sample = 0; sample < 40; ++sample) {
    expect_two_passes(op.draw(make_key(sample), {}), level_image({17, 33, 3}));
    expect_two_passes(op.draw(make_key(sample), {}), unit_image({17, 33, 3}));
  }
}

// Converts RGB (0 to 1) to HSV and back with the usual case distinction, in double precision.
std::array<double, 3> turned_hsv(std::array<double, 3> rgb, double turn) {
  const double most = std::max({rgb[0], rgb[1], rgb[2]});
  const double span = most - std::min({rgb[0], rgb[1], rgb[2]});
  double hue = 0;
  if (span == 0) return rgb;
  if (most == rgb[0]) {
    hue = (rgb[1] - rgb[2]) / span;
  } else if (most == rgb[1]) {
    hue = 2 + (rgb[2] - rgb[0]) / span;
  } else {
    hue = 4 + (rgb[0] - rgb[1]) / span;
  }
  const double turned = hue / 6 + turn;
  const double sixths = (turned - std::floor(turned)) * 6;
  const double f = sixths - std::floor(sixths);
  const double p = most - span;
  const double q = most - span * f;
  const double t = most - span * (1 - f);
  switch (static_cast<int>(sixths)) {
    case 0:
      return {most, t, p};
    case 1:
      return {q, most, p};
    case 2:
      return {p, most, t};
    case 3:
      return {p, q, most};
    case 4:
      return {t, p, most};
    default:
      return {most, p, q};
  }
}

TEST(ColorJitter, HueShiftMatchesHsvReference) {
  const auto levels = level_image({40, 50, 3});
  const auto units = unit_image({40, 50, 3});
  for (const float turn : {-0.5F, -0.31F, -0.001F, 0.1F, 0.25F, 0.4999F, 0.5F}) {
    const DrawnJitter drawn = make_drawn(1, 1, 1, turn);
    const auto of_levels = applied<std::uint8_t>(ColorJitter{}, drawn, FieldKind::image, levels);
    const auto of_units = applied<float>(ColorJitter{}, drawn, FieldKind::image, units);
    for (std::size_t i = 0; i < levels.values.size(); i += 3) {
      const auto* level = &levels.values[i];
      const auto* unit = &units.values[i];
      const auto by_level =
          turned_hsv({double(level[0]), double(level[1]), double(level[2])}, turn);
      const auto by_unit = turned_hsv({unit[0], unit[1], unit[2]}, turn);
      for (std::size_t c = 0; c < 3; ++c) {
        ASSERT_NEAR(of_levels.values[i + c], by_level[c], 0.501);
        ASSERT_NEAR(of_units.values[i + c], by_unit[c], 2e-6);
      }
    }
  }
}

TEST(ColorJitter, HueShiftOfOneThirdRotatesTheChannels) {
  const auto levels = level_image({40, 50, 3});
  const auto forth =
      applied<std::uint8_t>(ColorJitter{}, make_drawn(1, 1, 1, 1 / 3.0F), FieldKind::image, levels);
  const auto back = applied<std::uint8_t>(ColorJitter{}, make_drawn(1, 1, 1, -1 / 3.0F),
                                          FieldKind::image, levels);
  for (std::size_t i = 0; i < levels.values.size(); i += 3) {
    for (std::size_t c = 0; c < 3; ++c) {
      ASSERT_EQ(forth.values[i + (c + 1) % 3], levels.values[i + c]);
      ASSERT_EQ(back.values[i + c], levels.values[i + (c + 1) % 3]);
    }
  }
}

TEST(ColorJitter, HueShiftKeepsGrayPixels) {
  for (int level = 0; level < 256; ++level) {
    const auto v = static_cast<float>(level);
    EXPECT_EQ(gray(Pixel<3>{{v, v, v}}, Range::levels), v);
    const Pixel<3> turned = with_hue({{v, v, v}}, 0.3F, Range::levels);
    EXPECT_EQ(turned.value[0], v);
    EXPECT_EQ(turned.value[1], v);
    EXPECT_EQ(turned.value[2], v);
  }
}

TEST(ColorJitter, NeutralFactorsChangeNothing) {
  Pixels<float> image = unit_image({3, 5, 3});
  image.values[0] = 2.5F;
  image.values[1] = -1;
  const ColorJitter op;
  EXPECT_EQ(applied<float>(op, op.draw(make_key(1), {}), FieldKind::image, image), image);
  EXPECT_EQ(applied<float>(op, op.draw(make_key(2), {}), FieldKind::image, image), image);
}

TEST(ColorJitter, FloatResultsAreClampedToUnitRange) {
  const Pixels<float> image{DType::float32, {1, 1, 3}, {1.5F, -0.5F, 0.25F}};
  const auto out = applied<float>(ColorJitter{}, make_drawn(2, 1, 1, 0), FieldKind::image, image);
  EXPECT_EQ(out.values, (std::vector<float>{1, 0, 0.5F}));
}

TEST(ColorJitter, MeanIsComputedFromIntegerSums) {
  EXPECT_EQ(mean_level(10, 4, Range::levels), 2.5F);
  EXPECT_EQ(mean_level(3 << 18, 1, Range::unit), 0.75F);
  EXPECT_EQ(mean_level((std::int64_t{1} << 48) - 1, std::int64_t{1} << 28, Range::unit), 1.0F);
  const auto term = [](float v) { return gray_sum_term(Pixel<1>{{v}}, Range::unit); };
  EXPECT_EQ(term(-1), 0);
  EXPECT_EQ(term(7), 1 << 20);
  EXPECT_EQ(term(0x1.8p-20F), 2);
  EXPECT_EQ(term(0x1.4p-19F), 2);
  EXPECT_EQ(term(std::numeric_limits<float>::infinity()), 1 << 20);
  EXPECT_EQ(term(kNaN), 0);
  EXPECT_EQ(gray_sum_term(Pixel<3>{{255, 255, 255}}, Range::levels), 255);
}

TEST(ColorJitter, SamplesTheOrderThenTheFactors) {
  const ColorJitter op{{0.5, 1.5}, {0.25, 0.75}, {2, 4}, {-0.5, 0.25}};
  for (std::uint64_t sample = 0; sample < 50; ++sample) {
    const DrawnJitter drawn = op.draw(make_key(sample), {});
    RandomStream stream(make_key(sample));
    std::array<Jitter, 4> order = {Jitter::brightness, Jitter::contrast, Jitter::saturation,
                                   Jitter::hue};
    for (std::uint32_t i = 3; i > 0; --i) std::swap(order[i], order[stream.below(i + 1)]);
    EXPECT_TRUE(std::equal(order.begin(), order.end(), drawn.order));
    EXPECT_EQ(drawn.brightness, 0.5F + stream.uniform());
    EXPECT_EQ(drawn.contrast, 0.25F + 0.5F * stream.uniform());
    EXPECT_EQ(drawn.saturation, static_cast<float>(2 + 2.0 * stream.uniform()));
    EXPECT_EQ(drawn.hue, static_cast<float>(-0.5 + 0.75 * stream.uniform()));
  }
}

TEST(ColorJitter, OrdersAndFactorsAreUniform) {
  const ColorJitter op{{0.5, 1.5}, {1, 1}, {1, 1}, {-0.1, 0.3}};
  std::map<std::vector<Jitter>, int> orders;
  float least = 9;
  float most = 0;
  double hues = 0;
  constexpr int kSamples = 24'000;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    const DrawnJitter drawn = op.draw(make_key(sample), {});
    ++orders[{std::begin(drawn.order), std::end(drawn.order)}];
    least = std::min(least, drawn.brightness);
    most = std::max(most, drawn.brightness);
    hues += drawn.hue;
    ASSERT_EQ(drawn.contrast, 1.0F);
  }
  EXPECT_EQ(orders.size(), 24u);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 1000, 150);
  EXPECT_NEAR(least, 0.5, 0.001);
  EXPECT_GE(least, 0.5F);
  EXPECT_NEAR(most, 1.5, 0.001);
  EXPECT_LE(most, 1.5F);
  EXPECT_NEAR(hues / kSamples, 0.1, 0.005);
}

TEST(ColorJitter, IsRandomOnlyIfADrawChangesTheResult) {
  EXPECT_FALSE(ColorJitter{}.is_random());
  EXPECT_FALSE((ColorJitter{{1.5, 1.5}}).is_random());
  EXPECT_TRUE((ColorJitter{{1.5, 1.5}, {0.5, 0.5}}).is_random());
  EXPECT_TRUE((ColorJitter{{1, 1}, {1, 1}, {1, 1}, {0, 0.1}}).is_random());
  EXPECT_FALSE((ColorJitter{{0.5, 1.5}}).changes_contrast());
  EXPECT_TRUE((ColorJitter{{1, 1}, {0.5, 1}}).changes_contrast());
}

TEST(ColorJitter, AcceptsAnImageWithoutPixels) {
  const auto none = level_image({0, 4, 3});
  EXPECT_EQ(applied<std::uint8_t>(ColorJitter{}, make_drawn(2, 2, 2, 0.1F), FieldKind::image, none),
            none);
}

TEST(ColorJitter, InvalidRangesAreRefused) {
  const auto refused = [](const ColorJitter& op) { return thrown_by([&] { op.validate(); }); };
  EXPECT_EQ(refused({{0, 1000}, {0, 0}, {1, 1}, {-0.5, 0.5}}), "nothing");
  EXPECT_EQ(refused({{1.5, 0.5}}),
            "Refused: color_jitter: the brightness is 1.5 to 0.5; it must be 0 to 1000, the first "
            "at most the second");
  EXPECT_THAT(refused({{1, 1}, {-0.1, 1}}), HasSubstr("the contrast is"));
  EXPECT_THAT(refused({{1, 1}, {1, 1}, {1, 1001}}), HasSubstr("the saturation is"));
  EXPECT_THAT(refused({{1, 1}, {1, 1}, {1, 1}, {-0.6, 0}}), HasSubstr("the hue is"));
  EXPECT_THAT(refused({{1, 1}, {1, 1}, {1, 1}, {0, kNaN}}), HasSubstr("the hue is"));
}

TEST(ColorJitter, UnsupportedFieldsAreRefused) {
  const auto refused = [](const ColorJitter& op, DType dtype, const Shape& shape) {
    return thrown_by([&] { op.output(make_spec(FieldKind::image, dtype, shape)); });
  };
  const ColorJitter light{{0.5, 1.5}, {0.5, 1.5}};
  const ColorJitter color{{1, 1}, {1, 1}, {0.5, 1}};
  EXPECT_EQ(refused(light, DType::uint8, {-1, -1, 1}), "nothing");
  EXPECT_EQ(refused(light, DType::float32, {-1, -1, 3}), "nothing");
  EXPECT_EQ(refused(color, DType::uint8, {-1, -1, 3}), "nothing");
  EXPECT_EQ(refused(color, DType::uint8, {2, 2, 1}),
            "Refused: color_jitter: image 'photo' is uint8, 2 x 2 x 1; it must be uint8 or "
            "float32, height x "
            "width x 3");
  EXPECT_THAT(refused(light, DType::uint8, {2, 2, 4}), HasSubstr("2 x 2 x 4; it must be"));
  EXPECT_THAT(refused(light, DType::int32, {2, 2, 3}), HasSubstr("photo' is int32"));
  EXPECT_THAT(refused(light, DType::uint8, {2, 2}), HasSubstr("photo' is uint8, 2 x 2"));
  EXPECT_FALSE(light.touches(FieldKind::mask));
  EXPECT_TRUE(light.touches(FieldKind::image));
}

}  // namespace
}  // namespace slipstream
