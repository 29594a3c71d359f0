#include "slipstream/transforms/masking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "slipstream/transforms/op.h"
#include "support/thrown.h"
#include "transforms/image_shapes.h"
#include "transforms/mask_math.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

template <typename T>
void expect_erased(const RandomErasing& op, const DrawnErasing& drawn, const Pixels<T>& image) {
  const auto out = applied<T>(op, drawn, FieldKind::image, image);
  for (std::int32_t y = 0; y < image.shape[0]; ++y) {
    for (std::int32_t x = 0; x < image.shape[1]; ++x) {
      const bool inside = y >= drawn.top && y < drawn.top + drawn.height && x >= drawn.left &&
                          x < drawn.left + drawn.width;
      ASSERT_EQ(is_erased(drawn, y, x), inside);
      for (std::int64_t c = 0; c < image.shape[2]; ++c) {
        ASSERT_EQ(out.at(y, x, c), inside ? static_cast<T>(op.value) : image.at(y, x, c));
      }
    }
  }
}

TEST(RandomErasing, FillsOnlyTheRectangle) {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    for (const Shape& shape : list_shapes(channels)) {
      const auto height = static_cast<std::int32_t>(shape[0]);
      const auto width = static_cast<std::int32_t>(shape[1]);
      const DrawnErasing whole{0, 0, height, width, height, width};
      const DrawnErasing part{height / 2, width / 3, height - height / 2, width / 2, height, width};
      for (const DrawnErasing& drawn : {whole, part, DrawnErasing{0, 0, 0, 0, height, width}}) {
        expect_erased({.value = 200}, drawn, level_image(shape));
        expect_erased({.value = -0.25}, drawn, unit_image(shape));
      }
    }
  }
}

TEST(RandomErasing, RectangleRespectsImageScaleAndRatio) {
  const RandomErasing op{0.75, {0.1, 0.4}, {0.5, 1.5}};
  int erased = 0;
  double least = 1;
  double most = 0;
  double middle = 0;
  for (std::uint64_t sample = 0; sample < 10'000; ++sample) {
    const DrawnErasing drawn = op.draw(make_key(sample), {90, 120, 3});
    EXPECT_EQ(drawn.image_height, 90);
    EXPECT_EQ(drawn.image_width, 120);
    if (drawn.height == 0) continue;
    ++erased;
    ASSERT_GE(drawn.top, 0);
    ASSERT_GE(drawn.left, 0);
    ASSERT_LE(drawn.top + drawn.height, 90);
    ASSERT_LE(drawn.left + drawn.width, 120);
    const double ratio = double(drawn.height) / drawn.width;
    ASSERT_NEAR(ratio, std::clamp(ratio, 0.5, 1.5), 0.06);
    const double share = double(drawn.height) * drawn.width / (90 * 120);
    least = std::min(least, share);
    most = std::max(most, share);
    middle += (drawn.left + drawn.width / 2.0) / 120;
  }
  EXPECT_NEAR(erased, 7500, 250);
  EXPECT_NEAR(least, 0.1, 0.01);
  EXPECT_NEAR(most, 0.4, 0.01);
  EXPECT_NEAR(middle / erased, 0.5, 0.01);
}

/// Samples a rectangle in up to ten attempts, as defined in the header.
DrawnErasing expected_rectangle(const RandomErasing& op, RandomStream& stream, std::int32_t height,
                                std::int32_t width) {
  for (int i = 0; i < 10; ++i) {
    const double share = op.scale[0] + stream.uniform() * (op.scale[1] - op.scale[0]);
    const double area = double(height) * width * share;
    const double low = std::log(op.ratio[0]);
    const double ratio = std::exp(low + stream.uniform() * (std::log(op.ratio[1]) - low));
    const auto h = static_cast<std::int32_t>(std::floor(std::sqrt(area * ratio) + 0.5));
    const auto w = static_cast<std::int32_t>(std::floor(std::sqrt(area / ratio) + 0.5));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    const auto top = stream.below(static_cast<std::uint32_t>(height - h + 1));
    const auto left = stream.below(static_cast<std::uint32_t>(width - w + 1));
    return {static_cast<std::int32_t>(top), static_cast<std::int32_t>(left), h, w, height, width};
  }
  return {0, 0, 0, 0, height, width};
}

TEST(RandomErasing, SamplesInTheDocumentedOrder) {
  const RandomErasing op{0.5, {0.01, 1}, {0.5, 2}};
  int without = 0;
  for (std::uint64_t sample = 0; sample < 10'000; ++sample) {
    RandomStream stream(make_key(sample));
    DrawnErasing expected{0, 0, 0, 0, 90, 270};
    if (stream.uniform() < 0.5) {
      expected = expected_rectangle(op, stream, 90, 270);
      without += expected.height == 0 ? 1 : 0;
    }
    const DrawnErasing drawn = op.draw(make_key(sample), {90, 270, 3});
    ASSERT_EQ(drawn.top, expected.top);
    ASSERT_EQ(drawn.left, expected.left);
    ASSERT_EQ(drawn.height, expected.height);
    ASSERT_EQ(drawn.width, expected.width);
  }
  EXPECT_GT(without, 10);
}

TEST(RandomErasing, ErasesNothingIfNoRectangleFits) {
  const RandomErasing wide{1, {0.9, 1}, {1000, 1000}};
  const RandomErasing always{1, {1, 1}, {1, 1}};
  for (std::uint64_t sample = 0; sample < 20; ++sample) {
    EXPECT_EQ(wide.draw(make_key(sample), {20, 20, 3}).height, 0);
    EXPECT_EQ(always.draw(make_key(sample), {0, 20, 3}).height, 0);
    EXPECT_EQ(always.draw(make_key(sample), {1, 1, 3}).height, 1);
    EXPECT_EQ((RandomErasing{0}.draw(make_key(sample), {20, 20, 3}).height), 0);
  }
  EXPECT_FALSE(RandomErasing{0}.is_random());
  EXPECT_TRUE(always.is_random());
}

TEST(RandomErasing, InvalidParametersAndFieldsAreRefused) {
  const auto refused = [](const RandomErasing& op) { return thrown_by([&] { op.validate(); }); };
  EXPECT_EQ(refused({}), "nothing");
  EXPECT_THAT(refused({1.5}), HasSubstr("Refused: random_erasing: p is 1.5"));
  EXPECT_EQ(refused({0.5, {0.4, 0.3}}),
            "Refused: random_erasing: the scale is 0.4 to 0.3; it must be above 0 and at "
            "most 1, the first at most the second");
  EXPECT_THAT(refused({0.5, {0.1, 0.3}, {3, 0.3}}), HasSubstr("the ratio is 3 to 0.3"));
  EXPECT_THAT(refused({.value = std::nan("")}), HasSubstr("the value is nan"));
  EXPECT_EQ(refused_field(RandomErasing{.value = 0.5}, DType::float32, {2, 2, 4}), "nothing");
  for (const double value : {0.5, -1.0, 256.0, 1e30}) {
    EXPECT_THAT(refused_field(RandomErasing{.value = value}, DType::uint8, {2, 2, 3}),
                HasSubstr("image 'photo' is uint8; it must be a whole number, 0 to 255"));
  }
  EXPECT_THAT(refused_field(RandomErasing{}, DType::uint8, {2, 2, 5}),
              HasSubstr("1 to 4 channels"));
  EXPECT_THAT(refused_field(RandomErasing{}, DType::int64, {2, 2, 3}), HasSubstr("int64"));
}

TEST(RandomErasing, ImageOfAnotherSizeThrows) {
  EXPECT_THAT(thrown_by([] {
                applied<std::uint8_t>(RandomErasing{}, {0, 0, 4, 4, 4, 4}, FieldKind::image,
                                      level_image({3, 4, 3}));
              }),
              HasSubstr("Error: random_erasing: a field is 3 x 4 pixels, but the sample's first "
                        "image is 4 x 4"));
}

/// Returns true if pixel (y, x) is in the mask before it grows, from the random words as
/// documented.
bool is_masked(const RandomMask& op, const RandomKey& key, const Shape& shape, std::int64_t y,
               std::int64_t x) {
  if (y < 0 || y >= shape[0] || x < 0 || x >= shape[1]) return false;
  const std::int64_t blocks = (shape[1] + 7) / 8;
  const PhiloxBlock block = key.block(static_cast<std::uint32_t>(y * blocks + x / 8));
  const auto place = static_cast<std::size_t>(x % 8);
  const std::uint32_t word = block.at(place / 2);
  const std::uint32_t bits = place % 2 == 0 ? word & 0xFFFF : word >> 16;
  return bits < std::floor(op.p * 65'536 + 0.5);
}

template <typename T>
void expect_masked(const RandomMask& op, const Pixels<T>& image, std::uint64_t sample) {
  const RandomKey key = make_key(sample);
  const auto out = applied<T>(op, op.draw(key, image.shape), FieldKind::image, image);
  const auto at = [&](std::int64_t y, std::int64_t x) {
    return is_masked(op, key, image.shape, y, x);
  };
  for (std::int64_t y = 0; y < image.shape[0]; ++y) {
    for (std::int64_t x = 0; x < image.shape[1]; ++x) {
      const bool has_masked_neighbor = at(y - 1, x) || at(y + 1, x) || at(y, x - 1) || at(y, x + 1);
      const bool masked = at(y, x) || (op.dilate && has_masked_neighbor);
      for (std::int64_t c = 0; c < image.shape[2]; ++c) {
        ASSERT_EQ(out.at(y, x, c), masked ? T{0} : image.at(y, x, c))
            << y << ", " << x << " of " << to_string(image.shape);
      }
    }
  }
}

TEST(RandomMask, ClearsMaskedPixelsAndTheirNeighbors) {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    for (const Shape& shape : list_shapes(channels)) {
      for (const double probability : {0.05, 0.25}) {
        for (const bool dilate : {true, false}) {
          expect_masked({probability, dilate}, level_image(shape), 1);
          expect_masked({probability, dilate}, unit_image(shape), 2);
        }
      }
    }
  }
}

TEST(RandomMask, ClearsMaskedPixelsForEveryWidthUpTo70) {
  for (std::int64_t width = 1; width <= 70; ++width) {
    expect_masked({0.1, true}, level_image({7, width, 3}), static_cast<std::uint64_t>(width));
  }
}

TEST(RandomMask, ProbabilityOneMasksAllAndZeroNothing) {
  auto image = unit_image({9, 13, 3});
  image.values[0] = std::numeric_limits<float>::quiet_NaN();
  const auto all =
      applied<float>(RandomMask{1}, {random_words(make_key(1))}, FieldKind::image, image);
  for (const float value : all.values) EXPECT_EQ(value, 0.0F);
  const auto levels = level_image({9, 13, 3});
  EXPECT_EQ(
      applied<std::uint8_t>(RandomMask{0}, {random_words(make_key(1))}, FieldKind::image, levels),
      levels);
}

TEST(RandomMask, MaskedShareMatchesTheProbability) {
  const Shape shape = {200, 300, 1};
  const Pixels<std::uint8_t> white{DType::uint8, shape, std::vector<std::uint8_t>(60'000, 255)};
  for (const double probability : {0.01, 0.25, 0.5}) {
    const auto kept = [&](const RandomMask& op, std::uint64_t sample) {
      const auto out =
          applied<std::uint8_t>(op, op.draw(make_key(sample), shape), FieldKind::image, white);
      const auto count = std::count(out.values.begin(), out.values.end(), 255);
      return static_cast<double>(count) / 60'000;
    };
    EXPECT_NEAR(kept({probability, false}, 1), 1 - probability, 0.01);
    EXPECT_NEAR(kept({probability, true}, 2), std::pow(1 - probability, 5), 0.01);
  }
}

TEST(RandomMask, ResultDependsOnTheKey) {
  const auto image = level_image({31, 45, 3});
  const auto masked = [&](const RandomKey& key) {
    const RandomMask op;
    return applied<std::uint8_t>(op, op.draw(key, image.shape), FieldKind::image, image);
  };
  RandomKey other = make_key(4);
  other.operation = 7;
  EXPECT_EQ(masked(make_key(4)), masked(make_key(4)));
  EXPECT_NE(masked(make_key(4)), masked(make_key(5)));
  EXPECT_NE(masked(make_key(4)), masked(other));
}

TEST(RandomMask, ProbabilityIsRoundedToSixteenBits) {
  EXPECT_EQ(RandomMask{0.25}.threshold(), 16'384u);
  EXPECT_EQ(RandomMask{0x1.8p-16}.threshold(), 2u);
  EXPECT_EQ(RandomMask{1}.threshold(), 65'536u);
  EXPECT_TRUE(RandomMask{}.is_random());
  EXPECT_FALSE(RandomMask{1}.is_random());
  EXPECT_FALSE(RandomMask{1e-9}.is_random());
}

TEST(RandomMask, InvalidParametersAndFieldsAreRefused) {
  EXPECT_EQ(thrown_by([] { RandomMask{1}.validate(); }), "nothing");
  EXPECT_THAT(thrown_by([] { RandomMask{-1}.validate(); }),
              HasSubstr("Refused: random_mask: p is -1"));
  EXPECT_EQ(refused_field(RandomMask{}, DType::float32, {-1, -1, 4}), "nothing");
  EXPECT_THAT(refused_field(RandomMask{}, DType::uint8, {2, 2}), HasSubstr("1 to 4 channels"));
  EXPECT_THAT(refused_field(RandomMask{}, DType::int32, {2, 2, 1}), HasSubstr("int32"));
  const auto draw = [](std::int64_t height, std::int64_t width) {
    return thrown_by([=] { RandomMask{}.draw({}, {height, width, 3}); });
  };
  EXPECT_EQ(draw(16'384, 16'384), "nothing");
  EXPECT_EQ(draw(1 << 16, 1 << 13), "nothing");
  EXPECT_THAT(draw(1 << 16, (1 << 13) + 1),
              HasSubstr("Error: random_mask: the image is 65536 x 8193 pixels"));
  EXPECT_THROW((RandomMask{}.draw({}, {1 << 16, (1 << 13) + 1, 3})), UnfitSample);
  const ConstArray large{nullptr, DType::uint8, {1 << 26, 9, 3}};
  Scratch scratch;
  EXPECT_THAT(thrown_by([&] { RandomMask{}.apply({}, FieldKind::image, large, {}, scratch); }),
              HasSubstr("Error: random_mask: the image is"));
}

TEST(Masking, TouchesOnlyImages) {
  for (const FieldKind kind : {FieldKind::mask, FieldKind::label, FieldKind::other}) {
    EXPECT_FALSE(RandomErasing{}.touches(kind));
    EXPECT_FALSE(RandomMask{}.touches(kind));
  }
  EXPECT_TRUE(RandomErasing{}.touches(FieldKind::image));
  EXPECT_TRUE(RandomMask{}.touches(FieldKind::image));
}

}  // namespace
}  // namespace slipstream
