#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slipstream/transforms/transforms.h"
#include "support/thrown.h"
#include "transforms/float_images.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

constexpr PaddingMode kPaddingModes[] = {PaddingMode::constant, PaddingMode::edge,
                                         PaddingMode::reflect, PaddingMode::symmetric};

/// Returns the index whose value pixel i of an axis of `size` pixels gets, or -1 for the fill
/// value.
std::int64_t expected_index(PaddingMode mode, std::int64_t i, std::int64_t size) {
  if (i >= 0 && i < size) return i;
  if (mode == PaddingMode::constant) return -1;
  if (mode == PaddingMode::edge) return std::clamp<std::int64_t>(i, 0, size - 1);
  // The period of the mirrored rows, and the position in it.
  const std::int64_t period = mode == PaddingMode::reflect ? 2 * (size - 1) : 2 * size;
  const std::int64_t at = (i % period + period) % period;
  return at < size ? at : (mode == PaddingMode::reflect ? period : period - 1) - at;
}

template <typename T>
Pixels<T> expected_region(const Pixels<T>& in, const Region& region, PaddingMode mode,
                          const std::vector<T>& fill) {
  Pixels<T> out{in.dtype, in.shape, {}};
  out.shape.dims[0] = region.height;
  out.shape.dims[1] = region.width;
  for (std::int64_t y = region.top; y < region.top + region.height; ++y) {
    for (std::int64_t x = region.left; x < region.left + region.width; ++x) {
      const std::int64_t from_y = expected_index(mode, y, in.shape[0]);
      const std::int64_t from_x = expected_index(mode, x, in.shape[1]);
      const std::int64_t channels = in.shape.rank == 3 ? in.shape[2] : 1;
      for (std::int64_t c = 0; c < channels; ++c) {
        const bool is_filled = from_y < 0 || from_x < 0;
        out.values.push_back(is_filled ? fill[fill.size() == 1 ? 0 : static_cast<std::size_t>(c)]
                                       : in.at(from_y, from_x, c));
      }
    }
  }
  return out;
}

TEST(Pad, EveryModeMatchesReference) {
  for_each_image_kind([](auto kind, std::int64_t channels) {
    using T = decltype(kind);
    const auto in = picture<T>(5, 6, channels);
    for (const PaddingMode mode : kPaddingModes) {
      const Pad op{{4, 1, 2, 3}, {7}, mode};
      EXPECT_EQ(applied<T>(op, {}, FieldKind::image, in),
                expected_region(in, {-1, -4, 9, 12}, mode, {T{7}}));
    }
  });
}

TEST(Pad, FillMayHaveOneNumberPerChannel) {
  const auto in = picture<std::uint8_t>(2, 3, 3);
  EXPECT_EQ(applied<std::uint8_t>(Pad{1, {3, 200, 0}}, {}, FieldKind::image, in),
            expected_region(in, {-1, -1, 4, 5}, PaddingMode::constant, Levels{3, 200, 0}));
}

TEST(Pad, MasksOfAnyDTypeGetTheFillAsTheirClass) {
  const auto bytes = counted<std::uint8_t>(DType::uint8, {3, 4});
  const auto wide = counted<std::int64_t>(DType::int64, {3, 4});
  for (const PaddingMode mode : kPaddingModes) {
    const Pad op{2, {255}, mode};
    EXPECT_EQ(applied<std::uint8_t>(op, {}, FieldKind::mask, bytes),
              expected_region(bytes, {-2, -2, 7, 8}, mode, Levels{255}));
    EXPECT_EQ(applied<std::int64_t>(op, {}, FieldKind::mask, wide),
              expected_region(wide, {-2, -2, 7, 8}, mode, std::vector<std::int64_t>{255}));
  }
}

TEST(Pad, OutputShapeAndBoxesIncludeThePadding) {
  const Pad op{{1, 2, 3, 4}};
  EXPECT_EQ(op.output(make_spec(FieldKind::image, DType::uint8, {10, 20, 3})).shape,
            Shape({16, 24, 3}));
  EXPECT_EQ(op.output(make_spec(FieldKind::image, DType::uint8, {-1, 20, 3})).shape,
            Shape({-1, 24, 3}));
  const AffineMap map = op.map(op.draw({}, {10, 20, 3}), {10, 20, 3});
  EXPECT_EQ(map.xx, 1);
  EXPECT_EQ(map.dx, 1);
  EXPECT_EQ(map.dy, 2);
  EXPECT_EQ(map.width, 24);
  EXPECT_EQ(map.height, 16);
}

TEST(Pad, ImagesTooSmallToBeMirroredAreUnfit) {
  const auto drawn = [](PaddingMode mode, const Shape& shape) {
    return thrown_by([&] { Pad{{0, 3, 0, 0}, {0}, mode}.draw({}, shape); });
  };
  EXPECT_EQ(drawn(PaddingMode::reflect, {4, 1, 3}), "nothing");
  EXPECT_THAT(drawn(PaddingMode::reflect, {3, 9, 3}),
              HasSubstr("pad: the image is 3 x 9 pixels, too small to be mirrored on 0, 3, 0, 0 "
                        "pixels (left, top, right, bottom)"));
  EXPECT_EQ(drawn(PaddingMode::symmetric, {3, 1, 3}), "nothing");
  EXPECT_THAT(drawn(PaddingMode::symmetric, {2, 9, 3}), HasSubstr("too small to be mirrored"));
  EXPECT_EQ(drawn(PaddingMode::edge, {1, 1, 3}), "nothing");
  EXPECT_THAT(drawn(PaddingMode::edge, {0, 1, 3}), HasSubstr("pad: the image has no pixels"));
  EXPECT_THAT(thrown_by([] { Pad{65'536}.draw({}, {9, 9, 3}); }), HasSubstr("too many"));
}

TEST(Pad, InvalidParametersAreRefused) {
  const auto refused = [](const Pad& op) { return thrown_by([&] { op.validate(); }); };
  EXPECT_EQ(refused({{0, 0, 65'536, 1}}), "nothing");
  EXPECT_EQ(refused({{0, -1, 2, 1}}), "Refused: pad: the padding is -1; it must be 0 to 65536");
  EXPECT_THAT(refused({1, {}}), HasSubstr("fill has 0 numbers"));
  EXPECT_THAT(refused({1, {1, 2, 3, 4, 5}}), HasSubstr("fill has 5 numbers"));
  EXPECT_THAT(refused({1, {1e300}}), HasSubstr("fill is 1e+300; it must be a number"));
}

TEST(Pad, FillThatIsNoValueOfTheFieldIsRefused) {
  const auto refused = [](std::vector<double> fill, FieldKind kind, DType dtype,
                          const Shape& shape) {
    return thrown_by([&] { Pad{1, std::move(fill)}.output(make_spec(kind, dtype, shape)); });
  };
  const auto image = FieldKind::image;
  EXPECT_EQ(refused({255}, image, DType::uint8, {4, 4, 3}), "nothing");
  EXPECT_EQ(refused({-1.5}, image, DType::float32, {4, 4, 3}), "nothing");
  for (const double value : {256.0, -1.0, 0.5}) {
    EXPECT_THAT(refused({value}, image, DType::uint8, {4, 4, 3}),
                HasSubstr("it must be a whole number, 0 to 255"));
  }
  EXPECT_THAT(refused({1, 2}, image, DType::uint8, {4, 4, 3}),
              HasSubstr("fill has 2 numbers, but image 'photo' has 4 x 4 x 3; give one number, or "
                        "one per channel"));
  EXPECT_THAT(refused({1, 2, 3}, FieldKind::mask, DType::uint8, {4, 4}),
              HasSubstr("mask 'photo' has one value per pixel; give one number"));
  EXPECT_THAT(refused({0x1p63}, FieldKind::mask, DType::int64, {4, 4}),
              HasSubstr("it must be a whole number"));
}

TEST(CenterCrop, SmallerImageIsPaddedAsInTorchvision) {
  const auto image = picture<std::uint8_t>(4, 9, 3);
  const CenterCrop op{{7, 5}};
  const DrawnCrop drawn = op.draw({}, image.shape);
  // torchvision adds (7 - 4) // 2 rows above the image, and (7 - 4 + 1) // 2 below it.
  EXPECT_EQ(drawn.region, (Region{-1, 2, 7, 5}));
  EXPECT_EQ(applied<std::uint8_t>(op, drawn, FieldKind::image, image),
            expected_region(image, drawn.region, PaddingMode::constant, Levels{0}));
}

TEST(RandomCrop, PaddingMayDifferFromSideToSide) {
  const auto image = picture<std::uint8_t>(8, 9, 3);
  for (const PaddingMode mode : kPaddingModes) {
    const RandomCrop op{{11, 10}, {4, 1, 0, 3}, false, {9, 8, 7}, mode};
    std::int64_t least = 0;
    std::int64_t most = -9;
    for (std::uint64_t sample = 0; sample < 100; ++sample) {
      const DrawnCrop drawn = op.draw(make_key(sample), image.shape);
      EXPECT_EQ(applied<std::uint8_t>(op, drawn, FieldKind::image, image),
                expected_region(image, drawn.region, mode, Levels{9, 8, 7}));
      least = std::min(least, drawn.region.left);
      most = std::max(most, drawn.region.left);
    }
    EXPECT_EQ(least, -4);
    EXPECT_EQ(most, -1);
  }
}

TEST(RandomCrop, CropMayBeOutsideOfTheImage) {
  const auto image = picture<std::uint8_t>(3, 3, 1);
  const RandomCrop op{2, 20, false, {5}};
  int outside = 0;
  for (std::uint64_t sample = 0; sample < 100; ++sample) {
    const DrawnCrop drawn = op.draw(make_key(sample), image.shape);
    EXPECT_EQ(applied<std::uint8_t>(op, drawn, FieldKind::image, image),
              expected_region(image, drawn.region, PaddingMode::constant, Levels{5}));
    const Region read = op.region(drawn);
    EXPECT_TRUE(read.top >= 0 && read.left >= 0 && read.height >= 1 && read.width >= 1 &&
                read.top + read.height <= 3 && read.left + read.width <= 3);
    outside += drawn.region.top >= 3 ? 1 : 0;
    RandomCrop black = op;
    black.fill = {0};
    EXPECT_EQ(applied<std::uint8_t>(black, drawn, FieldKind::image, image),
              expected_region(image, drawn.region, PaddingMode::constant, Levels{0}));
  }
  EXPECT_GT(outside, 0);
}

// torchvision adds the missing rows on both sides.
TEST(RandomCrop, PadIfNeededAddsTheMissingPixelsOnBothSides) {
  RandomCrop op{{10, 6}};
  op.pad_if_needed = true;
  std::int64_t least = 0;
  std::int64_t most = -9;
  for (std::uint64_t sample = 0; sample < 100; ++sample) {
    const Region region = op.draw(make_key(sample), {7, 9, 3}).region;
    least = std::min(least, region.top);
    most = std::max(most, region.top);
    EXPECT_TRUE(region.left >= 0 && region.left <= 3);
  }
  EXPECT_EQ(least, -3);
  EXPECT_EQ(most, 0);
  EXPECT_EQ(thrown_by([&] {
              op.output(make_spec(FieldKind::image, DType::uint8, {7, 9, 3}));
            }),
            "nothing");
  op.padding_mode = PaddingMode::reflect;
  EXPECT_THAT(thrown_by([&] { op.draw({}, {5, 9, 3}); }), HasSubstr("too small to be mirrored"));
}

TEST(RandomCrop, OnlyCropsWithoutPaddingAreResizes) {
  EXPECT_TRUE(RandomCrop{4}.only_resizes());
  EXPECT_FALSE((RandomCrop{4, 1}.only_resizes()));
  EXPECT_FALSE((RandomCrop{4, 0, true}.only_resizes()));
}

}  // namespace
}  // namespace slipstream
