#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slipstream/transforms/transforms.h"
#include "support/thrown.h"
#include "transforms/op_runner.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

template <typename T>
void expect_mirrored(DType dtype, const Shape& shape, FieldKind kind) {
  const auto in = counted<T>(dtype, shape);
  const auto across = applied<T>(RandomHorizontalFlip{}, {true}, kind, in);
  const auto down = applied<T>(RandomVerticalFlip{}, {true}, kind, in);
  const std::int64_t channels = shape.rank == 3 ? shape[2] : 1;
  for (std::int64_t y = 0; y < shape[0]; ++y) {
    for (std::int64_t x = 0; x < shape[1]; ++x) {
      for (std::int64_t c = 0; c < channels; ++c) {
        ASSERT_EQ(across.at(y, x, c), in.at(y, shape[1] - 1 - x, c));
        ASSERT_EQ(down.at(y, x, c), in.at(shape[0] - 1 - y, x, c));
      }
    }
  }
  EXPECT_EQ(applied<T>(RandomHorizontalFlip{}, {false}, kind, in), in);
  EXPECT_EQ(applied<T>(RandomVerticalFlip{}, {false}, kind, in), in);
}

TEST(Flips, MirrorImagesAndMasksOfAnyDType) {
  expect_mirrored<std::uint8_t>(DType::uint8, {5, 4, 3}, FieldKind::image);
  expect_mirrored<std::uint8_t>(DType::uint8, {4, 7, 2}, FieldKind::image);
  expect_mirrored<float>(DType::float32, {3, 5, 3}, FieldKind::image);
  expect_mirrored<std::uint8_t>(DType::uint8, {5, 6}, FieldKind::mask);
  expect_mirrored<std::int32_t>(DType::int32, {1, 6}, FieldKind::mask);
  expect_mirrored<std::int64_t>(DType::int64, {6, 1}, FieldKind::mask);
}

TEST(Flips, MirrorRowsOfAnyLength) {
  for (std::int64_t width = 1; width <= 70; ++width) {
    for (const std::int64_t channels : {1, 2, 3, 4}) {
      expect_mirrored<std::uint8_t>(DType::uint8, {2, width, channels}, FieldKind::image);
      expect_mirrored<float>(DType::float32, {2, width, channels}, FieldKind::image);
    }
    expect_mirrored<std::int64_t>(DType::int64, {2, width}, FieldKind::mask);
  }
}

TEST(Flips, AreAppliedWithTheirProbability) {
  for (const double probability : {0.0, 0.1, 0.5, 1.0}) {
    int flips = 0;
    for (std::uint64_t sample = 0; sample < 10'000; ++sample) {
      const bool flipped = RandomHorizontalFlip{probability}.draw(make_key(sample), {}).flips;
      EXPECT_EQ(RandomVerticalFlip{probability}.draw(make_key(sample), {}).flips, flipped);
      EXPECT_EQ(RandomStream(make_key(sample)).uniform() < probability, flipped);
      flips += flipped ? 1 : 0;
    }
    EXPECT_NEAR(flips / 10'000.0, probability, 0.02);
  }
}

TEST(Flips, AreRandomUnlessProbabilityIsZeroOrOne) {
  EXPECT_TRUE(RandomHorizontalFlip{}.is_random());
  EXPECT_FALSE(RandomHorizontalFlip{0}.is_random());
  EXPECT_FALSE(RandomVerticalFlip{1}.is_random());
  EXPECT_TRUE(RandomVerticalFlip{0.5}.is_random());
}

TEST(Flips, KeepTheShape) {
  const FieldSpec spec = make_spec(FieldKind::image, DType::float32, {-1, 7, 5});
  EXPECT_EQ(RandomHorizontalFlip{}.output(spec).shape, spec.shape);
  EXPECT_EQ(RandomVerticalFlip{}.output(spec).dtype, DType::float32);
  EXPECT_THAT(
      thrown_by([] { RandomVerticalFlip{}.output(make_spec(FieldKind::mask, DType::uint8, {4})); }),
      HasSubstr("Refused: random_vertical_flip: mask 'photo' is 4; it must be height x width"));
}

TEST(Flips, InvalidProbabilityIsRefused) {
  EXPECT_EQ(thrown_by([] { RandomHorizontalFlip{1}.validate(); }), "nothing");
  EXPECT_THAT(thrown_by([] { RandomHorizontalFlip{1.5}.validate(); }),
              HasSubstr("Refused: random_horizontal_flip: p is 1.5"));
  EXPECT_THAT(thrown_by([] { RandomVerticalFlip{-0.1}.validate(); }),
              HasSubstr("it must be 0 to 1"));
}

}  // namespace
}  // namespace slipstream
