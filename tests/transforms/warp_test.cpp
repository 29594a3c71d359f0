#include "slipstream/transforms/warp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "transforms/float_images.h"
#include "transforms/interpolation.h"
#include "transforms/warps.h"

namespace slipstream {
namespace {

/// Rotates by `degrees`.
template <typename T>
Pixels<T> turned(double degrees, FieldKind kind, const Pixels<T>& in,
                 Interpolation interpolation = kNearest, double fill = 0) {
  const RandomRotation op{{degrees, degrees}, interpolation, fill};
  return applied<T>(op, op.draw({}, in.shape), kind, in);
}

/// Returns `in` after this number of quarter turns, computed in half pixels; halves are rounded to
/// the right and down.
template <typename T>
Pixels<T> quarter_turned(int quarters, const Pixels<T>& in, T fill) {
  const std::int64_t height = in.shape[0];
  const std::int64_t width = in.shape[1];
  const std::int64_t channels = in.shape.rank == 3 ? in.shape[2] : 1;
  Pixels<T> out{in.dtype, in.shape, {}};
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      std::int64_t from_x = 2 * x - (width - 1);
      std::int64_t from_y = 2 * y - (height - 1);
      for (int i = 0; i < quarters; ++i) {
        const std::int64_t right = from_x;
        from_x = -from_y;
        from_y = right;
      }
      from_x = (from_x + width) >> 1;
      from_y = (from_y + height) >> 1;
      const bool is_inside = from_x >= 0 && from_x < width && from_y >= 0 && from_y < height;
      for (std::int64_t c = 0; c < channels; ++c) {
        out.values.push_back(is_inside ? in.at(from_y, from_x, c) : fill);
      }
    }
  }
  return out;
}

constexpr std::int64_t kSizes[][2] = {{4, 4}, {5, 5}, {4, 7}, {7, 4}, {6, 10}, {3, 9}, {1, 5}};

TEST(RandomRotation, RightAnglesMovePixelsExactly) {
  for (const auto& [height, width] : kSizes) {
    for (int quarters = -4; quarters <= 4; ++quarters) {
      SCOPED_TRACE(to_string(Shape{height, width}) + " by " + std::to_string(90 * quarters));
      const int left = (quarters + 4) % 4;
      for_each_image_kind([&, height = height, width = width](auto kind, std::int64_t channels) {
        using T = decltype(kind);
        const auto in = picture<T>(height, width, channels);
        EXPECT_EQ(turned(90 * quarters, kImage, in, kNearest, 9), quarter_turned(left, in, T{9}));
        // Bilinear interpolation is exact only if no coordinate is between two pixels.
        if (left % 2 == 0 || (height - width) % 2 == 0) {
          EXPECT_EQ(turned(90 * quarters, kImage, in, kBilinear, 9),
                    quarter_turned(left, in, T{9}));
        }
      });
    }
  }
}

TEST(RandomRotation, RotatesMasksOfAnyDType) {
  const auto test = [](auto value, DType dtype) {
    using T = decltype(value);
    for (const auto& [height, width] : kSizes) {
      auto in = counted<T>(dtype, {height, width});
      for (T& each : in.values) ++each;
      const RandomRotation op{{90, 90}, kBilinear, 9};
      EXPECT_EQ(applied<T>(op, op.draw({}, {height, width, 3}), kMask, in),
                quarter_turned(1, in, T{0}));
    }
  };
  test(std::uint8_t{}, DType::uint8);
  test(std::int32_t{}, DType::int32);
  test(std::int64_t{}, DType::int64);
  test(float{}, DType::float32);
}

TEST(RandomRotation, RotatesCounterClockwise) {
  const Pixels<std::uint8_t> in{DType::uint8,
                                {3, 3},
                                {7, 0, 0,  //
                                 0, 0, 0,  //
                                 0, 0, 0}};
  EXPECT_EQ(turned(90, kMask, in).values, (Levels{0, 0, 0,  //
                                                  0, 0, 0,  //
                                                  7, 0, 0}));
  EXPECT_EQ(turned(45, kMask, in).at(1, 0), 7);
  EXPECT_EQ(turned(-90, kMask, in).at(0, 2), 7);
}

TEST(RandomAffine, RotatesClockwise) {
  const Pixels<std::uint8_t> in{DType::uint8, {3, 3}, {7, 0, 0, 0, 0, 0, 0, 0, 0}};
  EXPECT_EQ(transformed(RandomAffine{{90, 90}}, kMask, in).at(0, 2), 7);
  EXPECT_EQ(transformed(RandomAffine{{-90, -90}}, kMask, in).at(2, 0), 7);
}

/// Returns the input position for output (x, y) of a rotation, in double precision.
std::array<double, 2> source_in_double(double degrees, const Shape& shape, std::int64_t x,
                                       std::int64_t y) {
  const double radians = degrees * std::numbers::pi / 180;
  const double middle_x = static_cast<double>(shape[1] - 1) / 2;
  const double middle_y = static_cast<double>(shape[0] - 1) / 2;
  const double dx = static_cast<double>(x) - middle_x;
  const double dy = static_cast<double>(y) - middle_y;
  return {middle_x + std::cos(radians) * dx - std::sin(radians) * dy,
          middle_y + std::sin(radians) * dx + std::cos(radians) * dy};
}

constexpr double kAngles[] = {45, -45, 30, 123.4, -77.7, 359.9, 0.01};

TEST(RandomRotation, NearestUsesThePixelWithTheNearestCenter) {
  const auto in = picture<float>(90, 121, 1);
  for (const double degrees : kAngles) {
    const auto out = turned(degrees, kImage, in, kNearest, -1);
    int compared = 0;
    for (std::int64_t y = 0; y < 90; ++y) {
      for (std::int64_t x = 0; x < 121; ++x) {
        const auto [at_x, at_y] = source_in_double(degrees, in.shape, x, y);
        const auto is_near_border = [](double at) {
          return std::abs(at + 0.5 - std::round(at + 0.5)) < 1e-3;
        };
        if (is_near_border(at_x) || is_near_border(at_y)) continue;
        const auto column = static_cast<std::int64_t>(std::floor(at_x + 0.5));
        const auto row = static_cast<std::int64_t>(std::floor(at_y + 0.5));
        const bool is_inside = column >= 0 && column < 121 && row >= 0 && row < 90;
        ASSERT_EQ(out.at(y, x), is_inside ? in.at(row, column) : -1) << degrees << x << ' ' << y;
        ++compared;
      }
    }
    EXPECT_GT(compared, 90 * 121 * 9 / 10) << degrees;
  }
}

TEST(RandomRotation, BilinearInterpolatesFourPixels) {
  const auto in = picture<float>(60, 83, 1);
  constexpr double kFill = 0.5;
  const auto value = [&](std::int64_t x, std::int64_t y) {
    const bool is_inside = x >= 0 && x < 83 && y >= 0 && y < 60;
    return is_inside ? static_cast<double>(in.at(y, x)) : kFill;
  };
  for (const double degrees : kAngles) {
    const auto out = turned(degrees, kImage, in, kBilinear, kFill);
    for (std::int64_t y = 0; y < 60; ++y) {
      for (std::int64_t x = 0; x < 83; ++x) {
        const auto [at_x, at_y] = source_in_double(degrees, in.shape, x, y);
        const auto left = static_cast<std::int64_t>(std::floor(at_x));
        const auto top = static_cast<std::int64_t>(std::floor(at_y));
        const double across = at_x - std::floor(at_x);
        const double down = at_y - std::floor(at_y);
        const double expected =
            (1 - down) * ((1 - across) * value(left, top) + across * value(left + 1, top)) +
            down * ((1 - across) * value(left, top + 1) + across * value(left + 1, top + 1));
        ASSERT_NEAR(out.at(y, x), expected, 1e-4) << degrees << ": " << x << ' ' << y;
      }
    }
  }
}

/// Computes the definition in interpolation.h for given parameters, value by value.
template <typename T>
Pixels<T> expected_warp(const float (&m)[6], Interpolation interpolation, float fill,
                        const Pixels<T>& in) {
  const auto value = [&](float x, float y, std::int64_t c) {
    const bool is_inside = x >= 0 && x < static_cast<float>(in.shape[1]) && y >= 0 &&
                           y < static_cast<float>(in.shape[0]);
    if (!is_inside) return fill;
    return static_cast<float>(in.at(static_cast<std::int64_t>(y), static_cast<std::int64_t>(x), c));
  };
  const auto between = [](float first, float second, float weight) {
    return std::fma(weight, second - first, first);
  };
  Pixels<T> out{in.dtype, in.shape, {}};
  for (std::int64_t i = 0; i < in.shape[0] * in.shape[1]; ++i) {
    const auto to_x = static_cast<float>(i % in.shape[1]);
    const auto to_y = static_cast<float>(i / in.shape[1]);
    const float x = std::fma(m[0], to_x, std::fma(m[1], to_y, m[2]));
    const float y = std::fma(m[3], to_x, std::fma(m[4], to_y, m[5]));
    const float left = std::floor(x);
    const float top = std::floor(y);
    for (std::int64_t c = 0; c < in.shape[2]; ++c) {
      if (interpolation == kNearest) {
        out.values.push_back(held<T>(value(std::floor(x + 0.5F), std::floor(y + 0.5F), c)));
        continue;
      }
      const float upper = between(value(left, top, c), value(left + 1, top, c), x - left);
      const float lower = between(value(left, top + 1, c), value(left + 1, top + 1, c), x - left);
      out.values.push_back(held<T>(between(upper, lower, y - top)));
    }
  }
  return out;
}

TEST(RandomAffine, MatchesReferenceLoopBitForBit) {
  const RandomAffine ranges{{-180, 180}, {0.3, 0.3}, {0.2, 3}, {-40, 40, -40, 40}};
  for (const auto& [height, width] : {std::array{1, 1}, {9, 33}, {40, 21}}) {
    for (std::uint64_t sample = 0; sample < 20; ++sample) {
      for_each_image_kind([&, height = height, width = width](auto kind, std::int64_t channels) {
        using T = decltype(kind);
        const auto in = picture<T>(height, width, channels);
        const DrawnWarp drawn = ranges.draw(make_key(sample), in.shape);
        for (const Interpolation interpolation : {kNearest, kBilinear}) {
          ASSERT_EQ(applied<T>(affine(interpolation, 3), drawn, kImage, in),
                    expected_warp(drawn.m, interpolation, 3, in));
        }
      });
    }
  }
}

// A quarter turn of 2 x 3 pixels puts every coordinate halfway between two. The means of four
// pixels, some of which are outside, are 0.5, 2, 1.5; 2.5, 6, 3.5.
TEST(RandomRotation, BilinearRoundsUint8HalvesToEven) {
  const Pixels<std::uint8_t> in{DType::uint8, {2, 3, 1}, {9, 1, 1, 10, 4, 2}};
  EXPECT_EQ(turned(90, kImage, in, kBilinear, 0).values, (Levels{0, 2, 2, 2, 6, 4}));
}

TEST(RandomRotation, PixelsOutsideTheImageGetTheFillValue) {
  const Pixels<std::uint8_t> levels{DType::uint8, {1, 9, 3}, Levels(27, 200)};
  const Pixels<float> floats{DType::float32, {1, 9, 4}, std::vector<float>(36, 0.5F)};
  for (const Interpolation interpolation : {kNearest, kBilinear}) {
    const auto turned_levels = turned(90, kImage, levels, interpolation, 31);
    const auto turned_floats = turned(90, kImage, floats, interpolation, -2.5);
    for (const std::int64_t x : {0, 1, 2, 3, 5, 6, 7, 8}) {
      for (std::int64_t c = 0; c < 3; ++c) EXPECT_EQ(turned_levels.at(0, x, c), 31);
      for (std::int64_t c = 0; c < 4; ++c) EXPECT_EQ(turned_floats.at(0, x, c), -2.5F);
    }
    EXPECT_EQ(turned_levels.at(0, 4, 2), 200);
    EXPECT_EQ(turned_floats.at(0, 4, 3), 0.5F);
  }
}

TEST(RandomAffine, WithoutRangesKeepsImagesAndMasks) {
  for_each_image_kind([](auto kind, std::int64_t channels) {
    using T = decltype(kind);
    const auto in = picture<T>(6, 37, channels);
    EXPECT_EQ(transformed(affine(kNearest), kImage, in), in);
    EXPECT_EQ(transformed(affine(kBilinear), kImage, in), in);
  });
  const auto mask = counted<std::int64_t>(DType::int64, {5, 6});
  EXPECT_EQ(transformed(affine(), kMask, mask), mask);
}

TEST(RandomAffine, RotatesOppositeToRandomRotation) {
  const auto in = picture<std::uint8_t>(21, 34, 3);
  for (const double degrees : kAngles) {
    RandomAffine op = affine(kBilinear, 7);
    op.degrees[0] = op.degrees[1] = degrees;
    EXPECT_EQ(transformed(op, kImage, in), turned(-degrees, kImage, in, kBilinear, 7));
  }
}

TEST(RandomAffine, TranslatesByWholePixelsRightAndDown) {
  RandomAffine op = affine(kBilinear, 5);
  op.translate[0] = 0.5;
  op.translate[1] = 1;
  const auto in = picture<std::uint8_t>(4, 8, 1);
  for (std::uint64_t sample = 0; sample < 100; ++sample) {
    RandomStream stream(make_key(sample));
    stream.uniform();
    const auto right = static_cast<std::int64_t>(std::floor(-4 + 8 * stream.uniform() + 0.5F));
    const auto down = static_cast<std::int64_t>(std::floor(-4 + 8 * stream.uniform() + 0.5F));
    const auto out = transformed(op, kImage, in, make_key(sample));
    for (std::int64_t y = 0; y < 4; ++y) {
      for (std::int64_t x = 0; x < 8; ++x) {
        const bool is_inside = x >= right && x - right < 8 && y >= down && y - down < 4;
        ASSERT_EQ(out.at(y, x), is_inside ? in.at(y - down, x - right) : 5);
      }
    }
  }
}

TEST(RandomAffine, ScalesAboutTheCenter) {
  const Pixels<std::uint8_t> in{
      DType::uint8, {4, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 5, 7, 2, 4, 6, 8}};
  RandomAffine op = affine();
  op.scale[0] = op.scale[1] = 2;
  EXPECT_EQ(transformed(op, kMask, in).values, (Levels{6, 6, 7, 7,  //
                                                       6, 6, 7, 7,  //
                                                       3, 3, 5, 5,  //
                                                       3, 3, 5, 5}));
}

TEST(RandomAffine, ShearsRowsAndColumns) {
  RandomAffine across = affine();
  across.shear[0] = across.shear[1] = 45;
  const Pixels<std::uint8_t> column{DType::uint8,
                                    {3, 5},
                                    {0, 0, 7, 0, 0,  //
                                     0, 0, 8, 0, 0,  //
                                     0, 0, 9, 0, 0}};
  EXPECT_EQ(transformed(across, kMask, column).values, (Levels{0, 0, 0, 7, 0,  //
                                                               0, 0, 8, 0, 0,  //
                                                               0, 9, 0, 0, 0}));
  RandomAffine down = affine();
  down.shear[2] = down.shear[3] = 45;
  const Pixels<std::uint8_t> row{DType::uint8, {3, 3}, {0, 0, 0, 7, 8, 9, 0, 0, 0}};
  EXPECT_EQ(transformed(down, kMask, row).values, (Levels{0, 0, 9,  //
                                                          0, 8, 0,  //
                                                          7, 0, 0}));
  RandomAffine both = across;
  both.shear[2] = both.shear[3] = 45;
  // The point at (1, 1) from the middle moves to (0, 1) and then stays in its column. In the other
  // order of shears it would move to (1, 0).
  const Pixels<std::uint8_t> point{DType::uint8, {3, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 5}};
  EXPECT_EQ(transformed(both, kMask, point).at(2, 1), 5);
}

/// Returns the position of a point after the steps that the header describes, in their order.
std::array<double, 2> expected_position(const double (&drawn)[6], std::array<double, 2> at,
                                        const Shape& shape) {
  const auto radians = [](double degrees) { return degrees * std::numbers::pi / 180; };
  const double middle_x = static_cast<double>(shape[1] - 1) / 2;
  const double middle_y = static_cast<double>(shape[0] - 1) / 2;
  const auto [degrees, right, down, scale, shear_x, shear_y] = drawn;
  double x = at[0] - middle_x;
  double y = at[1] - middle_y;
  x -= std::tan(radians(shear_x)) * y;
  y -= std::tan(radians(shear_y)) * x;
  x *= scale;
  y *= scale;
  const double turned_x = std::cos(radians(degrees)) * x - std::sin(radians(degrees)) * y;
  const double turned_y = std::cos(radians(degrees)) * y + std::sin(radians(degrees)) * x;
  return {turned_x + middle_x + right, turned_y + middle_y + down};
}

TEST(RandomAffine, SamplesParametersInTheDocumentedOrder) {
  const RandomAffine op{{-20, 70}, {0.25, 0.1}, {0.5, 2.5}, {-10, 30, -25, 5}};
  EXPECT_TRUE(op.is_random());
  const Shape shape = {48, 80, 3};
  for (std::uint64_t sample = 0; sample < 500; ++sample) {
    RandomStream stream(make_key(sample));
    const auto drawn = [&](double low, double high) {
      return low + static_cast<double>(stream.uniform()) * (high - low);
    };
    double values[] = {drawn(-20, 70),
                       std::floor(drawn(-20, 20) + 0.5),
                       std::floor(drawn(-4.8, 4.8) + 0.5),
                       drawn(0.5, 2.5),
                       drawn(-10, 30),
                       drawn(-25, 5)};
    const DrawnWarp warp = op.draw(make_key(sample), shape);
    for (const auto& [x, y] : {std::array{0, 0}, {79, 0}, {3, 47}}) {
      const Coordinate from = source_coordinate(warp, x, y);
      const auto to = expected_position(values, {from.x, from.y}, shape);
      ASSERT_NEAR(to[0], x, 1e-3) << sample;
      ASSERT_NEAR(to[1], y, 1e-3) << sample;
    }
  }
}

}  // namespace
}  // namespace slipstream
