#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/source_folder.h"
#include "support/thrown.h"
#include "transforms/op_runner.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

/// A record of golden/make_crops.py.
struct Golden {
  std::uint64_t seed, sample;
  std::uint32_t epoch, operation;
  std::int32_t height, width;
  std::int32_t region[4];
  double bounds[4];
};

TEST(RandomResizedCrop, MatchesGoldenCrops) {
  std::ifstream file(golden_folder() / "crops.bin", std::ios::binary);
  Golden golden;
  int count = 0;
  for (; file.read(reinterpret_cast<char*>(&golden), sizeof golden); ++count) {
    const auto& bounds = golden.bounds;
    const RandomResizedCrop op{8, {bounds[0], bounds[1]}, {bounds[2], bounds[3]}};
    const RandomKey key = {.seed = golden.seed,
                           .epoch = golden.epoch,
                           .sample = golden.sample,
                           .operation = golden.operation};
    const auto& region = golden.region;
    const DrawnCrop drawn = op.draw(key, {golden.height, golden.width, 3});
    EXPECT_EQ(drawn.region, (Region{region[0], region[1], region[2], region[3]})) << count;
  }
  EXPECT_EQ(count, 36);
}

TEST(RandomResizedCrop, CropRespectsImageScaleAndRatio) {
  const RandomResizedCrop op{8, {0.1, 0.6}, {0.5, 2.0}};
  const double area = 90.0 * 120.0;
  double least = 1;
  double most = 0;
  for (std::uint64_t sample = 0; sample < 3000; ++sample) {
    const Region region = op.draw(make_key(sample), {90, 120, 3}).region;
    const auto height = static_cast<double>(region.height);
    const auto width = static_cast<double>(region.width);
    ASSERT_GE(region.top, 0);
    ASSERT_GE(region.left, 0);
    ASSERT_LE(region.top + region.height, 90);
    ASSERT_LE(region.left + region.width, 120);
    ASSERT_NEAR(width / height, std::clamp(width / height, 0.5, 2.0), 0.05);
    least = std::min(least, height * width / area);
    most = std::max(most, height * width / area);
  }
  EXPECT_NEAR(least, 0.1, 0.01);
  EXPECT_NEAR(most, 0.6, 0.01);
}

// Pixels outside of the crop must not influence the result.
TEST(RandomResizedCrop, EqualsResizeOfTheCroppedPixels) {
  const auto image = counted_image(60, 80);
  const auto mask = counted<std::int64_t>(DType::int64, {60, 80});
  const RandomResizedCrop op{24};
  for (std::uint64_t sample = 0; sample < 100; ++sample) {
    const DrawnCrop drawn = op.draw(make_key(sample), image.shape);
    const Region region = drawn.region;
    const CenterCrop crop{{region.height, region.width}};
    const auto part = applied<std::uint8_t>(crop, drawn, FieldKind::image, image);
    ASSERT_EQ(applied<std::uint8_t>(op, drawn, FieldKind::image, image),
              applied<std::uint8_t>(Resize{{24, 24}}, {}, FieldKind::image, part));
    const auto classes = applied<std::int64_t>(crop, drawn, FieldKind::mask, mask);
    ASSERT_EQ(applied<std::int64_t>(op, drawn, FieldKind::mask, mask),
              applied<std::int64_t>(Resize{{24, 24}}, {}, FieldKind::mask, classes));
  }
}

TEST(RandomResizedCrop, CropOfTheOutputSizeIsACopy) {
  const auto image = counted_image(9, 9);
  const DrawnCrop drawn{{2, 3, 4, 5}, 9, 9};
  EXPECT_EQ(applied<std::uint8_t>(RandomResizedCrop{{4, 5}}, drawn, FieldKind::image, image),
            applied<std::uint8_t>(CenterCrop{{4, 5}}, drawn, FieldKind::image, image));
}

TEST(RandomResizedCrop, InvalidParametersAreRefused) {
  const auto refused = [](const RandomResizedCrop& op) {
    return thrown_by([&] { op.validate(); });
  };
  EXPECT_EQ(refused({224}), "nothing");
  EXPECT_EQ(refused({1, {1, 1}, {1, 1}}), "nothing");
  EXPECT_THAT(refused({{0, 4}}), HasSubstr("Refused: random_resized_crop to 0 x 4"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refused({4, {0, 1}}), HasSubstr("the scale is 0 to 1"));
  EXPECT_THAT(refused({4, {0.5, 0.4}}), HasSubstr("the scale is"));
  EXPECT_THAT(refused({4, {0.5, 1.1}}), HasSubstr("the scale is"));
  EXPECT_THAT(refused({4, {nan, 1}}), HasSubstr("the scale is"));
  EXPECT_THAT(refused({4, {0.5, 1}, {2, 1}}), HasSubstr("the ratio is"));
  EXPECT_THAT(refused({4, {0.5, 1}, {0, 1}}), HasSubstr("the ratio is"));
  EXPECT_THAT(refused({4, {0.5, 1}, {1, nan}}), HasSubstr("the ratio is"));
}

TEST(RandomResizedCrop, AcceptsTheSameFieldsAsResize) {
  const RandomResizedCrop op{{4, 6}};
  const auto refused = [&](FieldKind kind, DType dtype, const Shape& shape) {
    return thrown_by([&] { op.output(make_spec(kind, dtype, shape)); });
  };
  EXPECT_EQ(op.output(make_spec(FieldKind::image, DType::uint8, {-1, -1, 3})).shape,
            Shape({4, 6, 3}));
  EXPECT_EQ(op.output(make_spec(FieldKind::mask, DType::int64, {-1, -1})).shape, Shape({4, 6}));
  EXPECT_EQ(op.output(make_spec(FieldKind::image, DType::float32, {-1, -1, 1})).shape,
            Shape({4, 6, 1}));
  EXPECT_THAT(refused(FieldKind::image, DType::int32, {-1, -1, 3}),
              HasSubstr("Refused: random_resized_crop: image 'photo' is int32"));
  EXPECT_THAT(refused(FieldKind::mask, DType::uint8, {5}), HasSubstr("mask 'photo' is 5"));
  EXPECT_THAT(thrown_by([&] {
                op.draw({}, {0, 5, 3});
              }),
              HasSubstr("Error: random_resized_crop: the image has no pixels"));
}

}  // namespace
}  // namespace slipstream
