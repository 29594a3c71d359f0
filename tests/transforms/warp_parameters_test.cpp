#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "slipstream/transforms/op.h"
#include "slipstream/transforms/warp.h"
#include "support/thrown.h"
#include "transforms/float_images.h"
#include "transforms/warps.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

double rotation_degrees(const DrawnWarp& warp) {
  return std::atan2(warp.m[3], warp.m[0]) * 180 / std::numbers::pi;
}

TEST(RandomRotation, AngleIsUniformInItsRange) {
  const RandomRotation op{{-30, 60}};
  double least = 360;
  double most = -360;
  for (std::uint64_t sample = 0; sample < 1000; ++sample) {
    const double degrees = rotation_degrees(op.draw(make_key(sample), {20, 30, 3}));
    const double uniform = RandomStream(make_key(sample)).uniform();
    ASSERT_NEAR(degrees, -30 + uniform * 90, 1e-4);
    least = std::min(least, degrees);
    most = std::max(most, degrees);
  }
  EXPECT_NEAR(least, -30, 1);
  EXPECT_NEAR(most, 60, 1);
}

TEST(RandomRotation, ResultDependsOnTheKey) {
  const RandomRotation op{{-90, 90}, kBilinear};
  const auto in = picture<float>(12, 12, 3);
  const auto result = [&](std::uint64_t sample) {
    return applied<float>(op, op.draw(make_key(sample), in.shape), kImage, in);
  };
  EXPECT_EQ(result(1), result(1));
  EXPECT_NE(result(1), result(2));
}

TEST(RandomAffine, ResultDependsOnTheKey) {
  const RandomAffine op{{-90, 90}, {0.1, 0.1}, {0.5, 2}, {-9, 9, -9, 9}, kBilinear};
  const auto in = picture<float>(12, 12, 3);
  EXPECT_EQ(transformed(op, kImage, in, make_key(1)), transformed(op, kImage, in, make_key(1)));
  EXPECT_NE(transformed(op, kImage, in, make_key(1)), transformed(op, kImage, in, make_key(2)));
}

TEST(RandomAffine, IsRandomIfAnyRangeHasWidth) {
  EXPECT_FALSE(affine().is_random());
  EXPECT_FALSE((RandomAffine{{5, 5}, {0, 0}, {2, 2}, {3, 3, 4, 4}}.is_random()));
  EXPECT_TRUE((RandomAffine{{5, 6}}.is_random()));
  EXPECT_TRUE((RandomAffine{{5, 5}, {0.1, 0}}.is_random()));
  EXPECT_TRUE((RandomAffine{{5, 5}, {0, 0.1}}.is_random()));
  EXPECT_TRUE((RandomAffine{{5, 5}, {0, 0}, {1, 2}}.is_random()));
  EXPECT_TRUE((RandomAffine{{5, 5}, {0, 0}, {1, 1}, {3, 4, 0, 0}}.is_random()));
  EXPECT_TRUE((RandomAffine{{5, 5}, {0, 0}, {1, 1}, {3, 3, 4, 5}}.is_random()));
  EXPECT_FALSE((RandomRotation{{5, 5}}.is_random()));
  EXPECT_TRUE((RandomRotation{{5, 6}}.is_random()));
}

template <typename Op>
std::string refused(const Op& op) {
  return thrown_by([&] { op.validate(); });
}

constexpr double kWarpParametersNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(RandomRotation, InvalidParametersAreRefused) {
  EXPECT_EQ(refused(RandomRotation{{-360, 360}, kBilinear, -5}), "nothing");
  EXPECT_THAT(refused(RandomRotation{{2, 1}}),
              HasSubstr("Refused: random_rotation: the angle is 2"));
  for (const RandomRotation& op :
       {RandomRotation{{-361, 0}}, RandomRotation{{0, 361}},
        RandomRotation{{kWarpParametersNan, 0}}, RandomRotation{{0, kWarpParametersNan}}}) {
    EXPECT_THAT(refused(op), HasSubstr("Refused: random_rotation: the angle is"));
  }
  for (const double fill : {kWarpParametersNan, kInfinity, -kInfinity}) {
    EXPECT_THAT(refused(RandomRotation{{0, 1}, kNearest, fill}),
                HasSubstr("Refused: random_rotation: fill is"));
  }
}

TEST(RandomAffine, InvalidParametersAreRefused) {
  EXPECT_EQ(refused(affine()), "nothing");
  EXPECT_EQ(refused(RandomAffine{{-360, 360}, {1, 1}, {0.01, 100}, {-80, 80, -80, 80}}), "nothing");
  for (const RandomAffine& op :
       {RandomAffine{{2, 1}}, RandomAffine{{-361, 0}}, RandomAffine{{0, kWarpParametersNan}}}) {
    EXPECT_THAT(refused(op), HasSubstr("Refused: random_affine: the angle is"));
  }
  for (const double share : {-0.1, 1.1, kWarpParametersNan}) {
    EXPECT_THAT(refused(RandomAffine{{0, 0}, {share, 0}}),
                HasSubstr("Refused: random_affine: translate[0] is"));
    EXPECT_THAT(refused(RandomAffine{{0, 0}, {0, share}}),
                HasSubstr("Refused: random_affine: translate[1] is"));
  }
  for (const auto& [low, high] : {std::array{2.0, 1.0},
                                  {0.0, 1.0},
                                  {-1.0, 1.0},
                                  {1.0, 100.5},
                                  {kWarpParametersNan, 1.0},
                                  {1.0, kWarpParametersNan}}) {
    EXPECT_THAT(refused(RandomAffine{{0, 0}, {0, 0}, {low, high}}),
                HasSubstr("random_affine: the scale is"));
  }
  for (const auto& [low, high] : {std::array{2.0, 1.0},
                                  {-81.0, 1.0},
                                  {1.0, 81.0},
                                  {kWarpParametersNan, 1.0},
                                  {1.0, kWarpParametersNan}}) {
    EXPECT_THAT(refused(RandomAffine{{0, 0}, {0, 0}, {1, 1}, {low, high, 0, 0}}),
                HasSubstr("random_affine: the shear along x is"));
    EXPECT_THAT(refused(RandomAffine{{0, 0}, {0, 0}, {1, 1}, {0, 0, low, high}}),
                HasSubstr("random_affine: the shear along y is"));
  }
  EXPECT_THAT(refused(affine(kNearest, kWarpParametersNan)),
              HasSubstr("Refused: random_affine: fill is"));
}

template <typename Op>
void expect_accepted_fields(const Op& op) {
  const auto output = [&](FieldKind kind, DType dtype, const Shape& shape) {
    return thrown_by([&] { EXPECT_EQ(op.output(make_spec(kind, dtype, shape)).shape, shape); });
  };
  const std::string name(op.kName);
  EXPECT_EQ(output(kImage, DType::uint8, {-1, -1, 1}), "nothing");
  EXPECT_EQ(output(kImage, DType::float32, {5, 6, 4}), "nothing");
  EXPECT_EQ(output(kMask, DType::int64, {-1, 6}), "nothing");
  EXPECT_THAT(output(kImage, DType::int32, {-1, -1, 3}),
              HasSubstr("Refused: " + name + ": image 'photo' is int32"));
  EXPECT_THAT(output(kImage, DType::uint8, {-1, -1, 5}), HasSubstr("1 to 4 channels"));
  EXPECT_THAT(output(kImage, DType::uint8, {-1, -1}), HasSubstr("height x width x channels"));
  EXPECT_THAT(output(kMask, DType::uint8, {4, 4, 1}),
              HasSubstr(name + ": mask 'photo' is 4 x 4 x 1"));
  EXPECT_TRUE(op.touches(kImage));
  EXPECT_TRUE(op.touches(kMask));
  EXPECT_FALSE(op.touches(FieldKind::label));
  EXPECT_FALSE(op.touches(FieldKind::other));
}

TEST(RandomRotation, AcceptsImagesAndMasksOnly) { expect_accepted_fields(RandomRotation{{0, 1}}); }
TEST(RandomAffine, AcceptsImagesAndMasksOnly) { expect_accepted_fields(affine()); }

TEST(RandomAffine, FillOfUint8ImagesMustBeAUint8Value) {
  const auto output = [](double fill, FieldKind kind, DType dtype, const Shape& shape) {
    const FieldSpec spec = make_spec(kind, dtype, shape);
    const auto warped = [&](const auto& op) { return thrown_by([&] { op.output(spec); }); };
    const std::string rotation_error = warped(RandomRotation{{0, 1}, kNearest, fill});
    EXPECT_EQ(rotation_error == "nothing", warped(affine(kNearest, fill)) == "nothing");
    return rotation_error;
  };
  const Shape shape = {-1, -1, 3};
  EXPECT_EQ(output(0, kImage, DType::uint8, shape), "nothing");
  EXPECT_EQ(output(255, kImage, DType::uint8, shape), "nothing");
  for (const double fill : {-1.0, 256.0, 0.5}) {
    EXPECT_THAT(output(fill, kImage, DType::uint8, shape),
                HasSubstr("Refused: random_rotation: the fill of image 'photo', uint8, is"));
    EXPECT_EQ(output(fill, kImage, DType::float32, shape), "nothing");
    EXPECT_EQ(output(fill, kMask, DType::uint8, {-1, -1}), "nothing");
  }
}

TEST(RandomRotation, FieldsOfAnotherSizeThrow) {
  const RandomRotation rotate{{0, 90}};
  const DrawnWarp drawn = rotate.draw({}, {6, 8, 3});
  const auto mask = counted<std::uint8_t>(DType::uint8, {8, 6});
  const auto image = picture<float>(6, 9, 3);
  EXPECT_EQ(thrown_by([&] { applied<std::uint8_t>(rotate, drawn, kMask, mask); }),
            "Error: random_rotation: a field is 8 x 6 pixels, but the sample's first image is 6 x "
            "8; make "
            "them the same size");
  EXPECT_THAT(thrown_by([&] { applied<float>(affine(), drawn, kImage, image); }),
              HasSubstr("Error: random_affine: a field is 6 x 9 pixels"));
}

TEST(RandomRotation, ImagesWithTooManyPixelsThrow) {
  const auto drawn = [](const Shape& shape) {
    const std::string rotation_error = thrown_by([&] { RandomRotation{{0, 1}}.draw({}, shape); });
    EXPECT_EQ(rotation_error == "nothing",
              thrown_by([&] { affine().draw({}, shape); }) == "nothing");
    return rotation_error;
  };
  EXPECT_EQ(drawn({32'767, 65'536, 3}), "nothing");
  EXPECT_EQ(
      drawn({32'768, 65'536, 3}),
      "Error: random_rotation: the image is 32768 x 65536 x 3; it must have at most 65536 pixels "
      "per side and fewer than 2^31 in total");
  EXPECT_THROW((RandomRotation{{0, 1}}.draw({}, {1, 65'537, 3})), UnfitSample);
  EXPECT_THAT(drawn({1, 65'537, 3}),
              HasSubstr("Error: random_rotation: the image is 1 x 65537 x 3"));
  EXPECT_THAT(drawn({65'537, 1, 3}),
              HasSubstr("Error: random_rotation: the image is 65537 x 1 x 3"));
}

}  // namespace
}  // namespace slipstream
