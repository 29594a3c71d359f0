#include "slipstream/transforms/adjust.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/thrown.h"
#include "transforms/chain_text.h"
#include "transforms/image_shapes.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Applies `op` and checks that without `applies` the image is not changed.
template <typename Op, typename T>
Pixels<T> adjusted(const Op& op, const Pixels<T>& image) {
  EXPECT_EQ(applied<T>(op, {false}, FieldKind::image, image), image);
  return applied<T>(op, {true}, FieldKind::image, image);
}

/// Compares every value with expected(value).
template <typename Op, typename T, typename Expected>
void expect_values(const Op& op, const Pixels<T>& image, const Expected& expected) {
  const Pixels<T> out = adjusted(op, image);
  EXPECT_EQ(out.dtype, image.dtype);
  for (std::size_t i = 0; i < image.values.size(); ++i)
    ASSERT_EQ(out.values[i], expected(image.values[i])) << op.kName << " " << i;
}

/// Calls check(shape) for images of 1 to 4 channels.
template <typename Check>
void with_shapes(const Check& check) {
  for (const std::int64_t channels : {1, 2, 3, 4})
    for (const Shape& shape : list_shapes(channels)) check(shape);
}

TEST(RandomInvert, SubtractsFromWhite) {
  with_shapes([](const Shape& shape) {
    expect_values(RandomInvert{}, level_image(shape), [](std::uint8_t v) { return 255 - v; });
    expect_values(RandomInvert{}, unit_image(shape), [](float v) { return 1.0F - v; });
  });
}

TEST(RandomPosterize, KeepsTheLeadingBits) {
  for (std::int64_t bits = 0; bits <= 8; ++bits) {
    const RandomPosterize op{bits};
    const auto kept = static_cast<std::uint8_t>(0xFF00 >> bits);
    with_shapes([&](const Shape& shape) {
      expect_values(op, level_image(shape), [&](std::uint8_t v) { return v & kept; });
      expect_values(op, unit_image(shape), [&](float v) {
        const float steps = std::ldexp(1.0F, static_cast<int>(bits));
        return std::floor(v * steps) / steps;
      });
    });
    const Pixels<float> outside{DType::float32, {1, 2, 1}, {-2.5F, 1e30F}};
    EXPECT_EQ(adjusted(op, outside).values,
              (std::vector{0.0F, 1.0F - std::ldexp(1.0F, -static_cast<int>(bits))}));
  }
}

TEST(RandomSolarize, InvertsFromTheThreshold) {
  for (const double threshold : {-1.0, 0.0, 127.5, 128.0, 255.0}) {
    expect_values(RandomSolarize{threshold}, level_image({17, 33, 3}), [&](std::uint8_t v) {
      return static_cast<std::uint8_t>(v >= threshold ? 255 - v : v);
    });
  }
  for (const double threshold : {0.0, 0.25, 1.0}) {
    expect_values(RandomSolarize{threshold}, unit_image({17, 33, 3}),
                  [&](float v) { return v >= threshold ? 1.0F - v : v; });
  }
}

/// Returns the exact mean around a pixel in which the center counts five times.
template <typename T>
double mean_around(const Pixels<T>& image, std::int64_t y, std::int64_t x, std::int64_t c) {
  double sum = 4.0 * static_cast<double>(image.at(y, x, c));
  for (const std::int64_t down : {-1, 0, 1})
    for (const std::int64_t right : {-1, 0, 1})
      sum += static_cast<double>(image.at(y + down, x + right, c));
  return sum / 13;
}

template <typename T>
void expect_sharpened(double factor, const Pixels<T>& image) {
  const Pixels<T> out = adjusted(RandomAdjustSharpness{factor}, image);
  const Shape& shape = image.shape;
  for (std::int64_t y = 0; y < shape[0]; ++y) {
    for (std::int64_t x = 0; x < shape[1]; ++x) {
      const bool is_edge = y == 0 || x == 0 || y + 1 == shape[0] || x + 1 == shape[1];
      for (std::int64_t c = 0; c < shape[2]; ++c) {
        const auto value = static_cast<double>(image.at(y, x, c));
        if (is_edge) {
          ASSERT_EQ(out.at(y, x, c), image.at(y, x, c));
        } else if (image.dtype == DType::uint8) {
          const double made =
              value + (1 - factor) * (std::nearbyint(mean_around(image, y, x, c)) - value);
          ASSERT_EQ(out.at(y, x, c), std::floor(std::clamp(made, 0.0, 255.0) + 1e-4));
        } else {
          const double made = value + (1 - factor) * (mean_around(image, y, x, c) - value);
          ASSERT_NEAR(out.at(y, x, c), std::clamp(made, 0.0, 1.0), 1e-6);
        }
      }
    }
  }
}

TEST(RandomAdjustSharpness, MovesInnerPixelsFromTheMeanAround) {
  with_shapes([](const Shape& shape) {
    for (const double factor : {0.0, 0.5, 1.0, 2.0, 5.0}) {
      expect_sharpened(factor, level_image(shape));
      expect_sharpened(factor, unit_image(shape));
    }
  });
}

TEST(RandomAutocontrast, StretchesEveryChannelAlone) {
  with_shapes([](const Shape& shape) {
    auto levels = level_image(shape);
    for (std::uint8_t& value : levels.values) value = static_cast<std::uint8_t>(20 + value / 2);
    const auto out = adjusted(RandomAutocontrast{}, levels);
    for (std::int64_t c = 0; c < shape[2]; ++c) {
      int least = 255, most = 0;
      for (std::size_t i = static_cast<std::size_t>(c); i < levels.values.size();
           i += static_cast<std::size_t>(shape[2])) {
        least = std::min<int>(least, levels.values[i]);
        most = std::max<int>(most, levels.values[i]);
      }
      for (std::size_t i = static_cast<std::size_t>(c); i < levels.values.size();
           i += static_cast<std::size_t>(shape[2])) {
        const int value = levels.values[i];
        const double exact = least == most ? value : 255.0 * (value - least) / (most - least);
        // A quotient that is a whole number may be rounded to just below it, and is then truncated.
        ASSERT_GE(out.values[i], std::floor(exact - 1e-4));
        ASSERT_LE(out.values[i], std::floor(exact + 1e-4));
      }
    }
  });
}

TEST(RandomAutocontrast, StretchesFloatsFromZeroToOne) {
  const Pixels<float> image{DType::float32, {1, 3, 2}, {0.25F, 2.0F, 0.5F, 2.0F, 0.75F, 2.0F}};
  EXPECT_EQ(adjusted(RandomAutocontrast{}, image).values,
            (std::vector{0.0F, 1.0F, 0.5F, 1.0F, 1.0F, 1.0F}));
}

TEST(RandomAutocontrast, IgnoresNanWhichBecomesBlack) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Pixels<float> image{DType::float32, {1, 3, 2}, {nan, nan, 0.5F, nan, 0.75F, nan}};
  EXPECT_EQ(applied<float>(RandomAutocontrast{}, {true}, FieldKind::image, image).values,
            (std::vector{0.0F, 0.0F, 0.0F, 0.0F, 1.0F, 0.0F}));
}

/// The formula in the documentation of RandomEqualize, without tables.
int equalized_level(const Pixels<std::uint8_t>& image, std::size_t at) {
  const auto channels = static_cast<std::size_t>(image.shape[2]);
  std::vector<int> levels;
  for (std::size_t i = at % channels; i < image.values.size(); i += channels)
    levels.push_back(image.values[i]);
  const int most = *std::max_element(levels.begin(), levels.end());
  const auto step =
      (static_cast<std::int64_t>(levels.size()) - std::count(levels.begin(), levels.end(), most)) /
      255;
  const int level = image.values[at];
  const auto below = std::count_if(levels.begin(), levels.end(), [&](int v) { return v < level; });
  return step == 0 ? level
                   : static_cast<int>(std::min<std::int64_t>(255, (below + step / 2) / step));
}

TEST(RandomEqualize, ReplacesLevelsByTheirRank) {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    for (const Shape& shape :
         {Shape{1, 1, channels}, Shape{9, 30, channels}, Shape{40, 33, channels}}) {
      auto image = level_image(shape);
      // Dark and light levels are missing, and some levels are frequent.
      for (std::uint8_t& value : image.values)
        value = static_cast<std::uint8_t>(value % 3 == 0 ? 90 : 60 + value / 4);
      const auto out = adjusted(RandomEqualize{}, image);
      for (std::size_t i = 0; i < image.values.size(); ++i)
        ASSERT_EQ(out.values[i], equalized_level(image, i)) << i;
    }
  }
}

template <typename Op>
void expect_probability(const Op& op) {
  int count = 0;
  for (std::uint64_t sample = 0; sample < 10'000; ++sample) {
    const bool applies = op.draw(make_key(sample), {}).applies;
    EXPECT_EQ(RandomStream(make_key(sample)).uniform() < op.p, applies);
    count += applies ? 1 : 0;
  }
  EXPECT_NEAR(count, 10'000 * op.p, 200);
  EXPECT_TRUE(op.is_random());
  EXPECT_FALSE(op.for_evaluation());
  for (const double p : {0.0, 1.0}) {
    Op fixed = op;
    fixed.p = p;
    EXPECT_FALSE(fixed.is_random());
    EXPECT_EQ(fixed.draw(make_key(1), {}).applies, p == 1);
  }
}

TEST(Adjustments, AreAppliedWithTheirProbability) {
  expect_probability(RandomInvert{0.2});
  expect_probability(RandomPosterize{3, 0.3});
  expect_probability(RandomSolarize{100, 0.4});
  expect_probability(RandomAdjustSharpness{2, 0.5});
  expect_probability(RandomAutocontrast{0.6});
  expect_probability(RandomEqualize{0.7});
}

TEST(Adjustments, EmptyImagesAreNotChanged) {
  const Pixels<std::uint8_t> image{DType::uint8, {0, 4, 3}, {}};
  EXPECT_EQ(adjusted(RandomAutocontrast{}, image), image);
  EXPECT_EQ(adjusted(RandomEqualize{}, image), image);
  EXPECT_EQ(adjusted(RandomAdjustSharpness{2}, image), image);
}

TEST(Adjustments, InvalidParametersAreRefused) {
  EXPECT_THAT(thrown_by([] { RandomInvert{2}.validate(); }),
              HasSubstr("Refused: random_invert: p is 2; it must be 0 to 1"));
  for (const std::int64_t bits : {-1, 9})
    EXPECT_EQ(thrown_by([&] { RandomPosterize{bits}.validate(); }),
              "Refused: random_posterize: bits is " + std::to_string(bits) + "; it must be 0 to 8");
  EXPECT_THAT(thrown_by([] {
                RandomAdjustSharpness{-0.5, 3}.validate();
              }),
              AllOf(HasSubstr("the sharpness_factor is -0.5; it must be 0 or more"),
                    HasSubstr("random_adjust_sharpness: p is 3")));
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_THAT(thrown_by([&] { RandomSolarize{infinite}.validate(); }),
              HasSubstr("random_solarize: the threshold is inf; it must be a number"));
  EXPECT_THAT(thrown_by([] { RandomAutocontrast{-1}.validate(); }), HasSubstr("autocontrast: p"));
  EXPECT_THAT(thrown_by([] { RandomEqualize{-1}.validate(); }), HasSubstr("equalize: p is -1"));
}

TEST(Adjustments, UnsupportedFieldsAreRefused) {
  EXPECT_THAT(refused_field(RandomInvert{}, DType::uint8, {2, 2, 5}), HasSubstr("1 to 4 channels"));
  EXPECT_THAT(refused_field(RandomPosterize{}, DType::int32, {2, 2, 3}), HasSubstr("int32"));
  EXPECT_EQ(refused_field(RandomSolarize{255}, DType::uint8, {2, 2, 3}), "nothing");
  EXPECT_EQ(
      refused_field(RandomSolarize{256}, DType::uint8, {2, 2, 3}),
      "Refused: random_solarize: the threshold is 256, but image 'photo' is uint8; it must be "
      "at most 255");
  EXPECT_THAT(refused_field(RandomSolarize{2}, DType::float32, {2, 2, 3}),
              HasSubstr("image 'photo' is float32; it must be at most 1"));
  EXPECT_THAT(refused_field(RandomEqualize{}, DType::float32, {2, 2, 3}),
              HasSubstr("image 'photo' is float32; it must be uint8: put random_equalize before"));
  EXPECT_EQ(refused_field(RandomEqualize{}, DType::uint8, {-1, -1, 1}), "nothing");
  for (const FieldKind kind : {FieldKind::mask, FieldKind::label, FieldKind::other})
    EXPECT_FALSE(RandomAutocontrast{}.touches(kind));
}

TEST(AdjustChain, ReadsEveryParameter) {
  const auto chain = parse_chain(with(R"(
      {"op": "random_invert", "p": 0.1}, {"op": "random_posterize", "bits": 3, "p": 0.2},
      {"op": "random_solarize", "threshold": 100.5, "p": 0.3},
      {"op": "random_adjust_sharpness", "sharpness_factor": 1.5, "p": 0.4},
      {"op": "random_autocontrast", "p": 0.6}, {"op": "random_equalize", "p": 0.7})"));
  ASSERT_EQ(chain.size(), 6u);
  EXPECT_EQ(chain[0].op.get_if<RandomInvert>()->p, 0.1);
  EXPECT_EQ(chain[1].op.get_if<RandomPosterize>()->bits, 3);
  EXPECT_EQ(chain[2].op.get_if<RandomSolarize>()->threshold, 100.5);
  EXPECT_EQ(chain[3].op.get_if<RandomAdjustSharpness>()->sharpness_factor, 1.5);
  EXPECT_EQ(chain[5].op.get_if<RandomEqualize>()->p, 0.7);
  EXPECT_EQ(to_json_text(parse_chain(to_json_text(chain))), to_json_text(chain));
  EXPECT_THAT(chain_refusal(R"({"op": "random_posterize"}, {"op": "random_solarize"},
                               {"op": "random_adjust_sharpness"})"),
              AllOf(HasSubstr("transforms[0].bits is missing"),
                    HasSubstr("transforms[1].threshold is missing"),
                    HasSubstr("transforms[2].sharpness_factor is missing")));
}

}  // namespace
}  // namespace slipstream
