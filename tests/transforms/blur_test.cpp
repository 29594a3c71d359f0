#include "slipstream/transforms/blur.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "slipstream/transforms/op.h"
#include "support/thrown.h"
#include "transforms/float_images.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

constexpr auto kImage = FieldKind::image;

std::int64_t mirrored_at(std::int64_t i, std::int64_t size) {
  if (i < 0) return -i;
  return i >= size ? 2 * (size - 1) - i : i;
}

/// Computes the header's definition value by value.
template <typename T>
Pixels<T> expected_blur(const DrawnBlur& blur, std::int64_t size, const Pixels<T>& in) {
  const std::int64_t radius = size / 2;
  const auto filtered = [&](auto value_at) {
    float sum = 0;
    for (std::int64_t d = -radius; d <= radius; ++d) {
      sum = std::fma(blur.weight[std::abs(d)], value_at(d), sum);
    }
    return sum;
  };
  Pixels<float> across{DType::float32, in.shape, {}};
  Pixels<T> out{in.dtype, in.shape, {}};
  const auto for_each_value = [&](auto call) {
    for (std::int64_t y = 0; y < in.shape[0]; ++y) {
      for (std::int64_t x = 0; x < in.shape[1]; ++x) {
        for (std::int64_t c = 0; c < in.shape[2]; ++c) call(y, x, c);
      }
    }
  };
  for_each_value([&](std::int64_t y, std::int64_t x, std::int64_t c) {
    across.values.push_back(filtered([&](std::int64_t d) {
      return static_cast<float>(in.at(y, mirrored_at(x + d, in.shape[1]), c));
    }));
  });
  for_each_value([&](std::int64_t y, std::int64_t x, std::int64_t c) {
    out.values.push_back(held<T>(filtered(
        [&](std::int64_t d) { return across.at(mirrored_at(y + d, in.shape[0]), x, c); })));
  });
  return out;
}

TEST(GaussianBlur, MatchesReferenceLoopBitForBit) {
  for (const auto& [size, height, width] :
       {std::array{3, 2, 2}, {5, 3, 40}, {23, 30, 12}, {7, 9, 33}, {63, 40, 32}}) {
    SCOPED_TRACE(std::to_string(size) + " of " + to_string(Shape{height, width}));
    const GaussianBlur op{size, {0.3 + 0.1 * size, 0.3 + 0.1 * size}};
    for_each_image_kind([&, height = height, width = width](auto kind, std::int64_t channels) {
      using T = decltype(kind);
      const auto in = picture<T>(height, width, channels);
      const DrawnBlur drawn = op.draw({}, in.shape);
      EXPECT_EQ(applied<T>(op, drawn, kImage, in), expected_blur(drawn, op.kernel_size, in));
    });
  }
}

TEST(GaussianBlur, WeightsFollowTheGaussian) {
  for (const double sigma : {0.01, 0.3, 1.0, 2.5, 40.0, 1000.0}) {
    for (const std::int64_t size : {1, 3, 9, 63}) {
      const GaussianBlur op{size, {sigma, sigma}};
      const DrawnBlur drawn = op.draw({}, {64, 64, 3});
      const auto gaussian = [&](std::int64_t d) {
        return std::exp(-static_cast<double>(d * d) / (2 * sigma * sigma));
      };
      double sum = 0;
      for (std::int64_t d = -size / 2; d <= size / 2; ++d) sum += gaussian(d);
      for (std::int64_t d = 0; d <= size / 2; ++d) {
        EXPECT_NEAR(drawn.weight[d], gaussian(d) / sum, 1e-7) << sigma << ", " << size << ", " << d;
      }
    }
  }
}

TEST(GaussianBlur, PointBecomesTheProductOfTheWeights) {
  const GaussianBlur op{9, {1.7, 1.7}};
  Pixels<float> in{DType::float32, {15, 13, 1}, std::vector<float>(15 * 13)};
  in.values[7 * 13 + 6] = 1;
  const DrawnBlur drawn = op.draw({}, in.shape);
  const auto out = applied<float>(op, drawn, kImage, in);
  for (std::int64_t y = 0; y < 15; ++y) {
    for (std::int64_t x = 0; x < 13; ++x) {
      const std::int64_t dy = std::abs(y - 7);
      const std::int64_t dx = std::abs(x - 6);
      const bool is_near = dy <= 4 && dx <= 4;
      EXPECT_EQ(out.at(y, x), is_near ? drawn.weight[dy] * drawn.weight[dx] : 0) << y << ' ' << x;
    }
  }
}

TEST(GaussianBlur, UniformColorIsUnchanged) {
  for (const std::int64_t size : {3, 11, 63}) {
    const GaussianBlur op{size, {2, 2}};
    const DrawnBlur drawn = op.draw({}, {40, 35, 3});
    for (const float color : {0.0F, 0.3F, 1.0F}) {
      const Pixels<float> in{DType::float32, {40, 35, 3}, std::vector<float>(40 * 35 * 3, color)};
      for (const float value : applied<float>(op, drawn, kImage, in).values) {
        ASSERT_NEAR(value, color, 4e-7 * color);
      }
    }
    const Pixels<std::uint8_t> levels{DType::uint8, {40, 35, 3}, Levels(40 * 35 * 3, 255)};
    EXPECT_EQ(applied<std::uint8_t>(op, drawn, kImage, levels), levels);
  }
}

// If only distance 2 has weight, an image of three pixels is replaced by what is beyond its edges.
TEST(GaussianBlur, BordersAreReflectedAboutTheEdgePixels) {
  const DrawnBlur drawn{{0, 0, 0.5F}};
  const Pixels<std::uint8_t> in{DType::uint8, {3, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  EXPECT_EQ(applied<std::uint8_t>(GaussianBlur{5, {1, 1}}, drawn, kImage, in).values,
            (Levels{9, 8, 7, 6, 5, 4, 3, 2, 1}));
}

TEST(GaussianBlur, RoundsUint8HalvesToEven) {
  const DrawnBlur drawn{{0.5F, 0.25F}};
  const Pixels<std::uint8_t> in{DType::uint8,
                                {2, 8, 1},
                                {0, 0, 2, 0, 0, 6, 0, 0,  //
                                 0, 0, 2, 0, 0, 6, 0, 0}};
  EXPECT_EQ(applied<std::uint8_t>(GaussianBlur{3, {1, 1}}, drawn, kImage, in).values,
            (Levels{0, 0, 1, 0, 2, 3, 2, 0,  // the exact values of some are 0.5 and 1.5
                    0, 0, 1, 0, 2, 3, 2, 0}));
}

TEST(GaussianBlur, KernelSizeOneKeepsTheImage) {
  const GaussianBlur op{1, {0.5, 9}};
  for_each_image_kind([&](auto kind, std::int64_t channels) {
    using T = decltype(kind);
    const auto in = picture<T>(1, 9, channels);
    EXPECT_EQ(applied<T>(op, op.draw(make_key(1), in.shape), kImage, in), in);
  });
}

double blur_sigma(const DrawnBlur& drawn) {
  return std::sqrt(-0.5 / std::log(drawn.weight[1] / drawn.weight[0]));
}

TEST(GaussianBlur, SigmaIsUniformInItsRange) {
  const GaussianBlur op{9, {0.5, 2.5}};
  EXPECT_TRUE(op.is_random());
  double least = 100;
  double most = 0;
  for (std::uint64_t sample = 0; sample < 1000; ++sample) {
    const double sigma = blur_sigma(op.draw(make_key(sample), {20, 20, 3}));
    const double uniform = RandomStream(make_key(sample)).uniform();
    ASSERT_NEAR(sigma, 0.5 + uniform * 2, 1e-5);
    least = std::min(least, sigma);
    most = std::max(most, sigma);
  }
  EXPECT_NEAR(least, 0.5, 0.02);
  EXPECT_NEAR(most, 2.5, 0.02);
}

TEST(GaussianBlur, ResultDependsOnTheKey) {
  const GaussianBlur op{9, {0.5, 2.5}};
  const auto in = picture<float>(12, 12, 3);
  const auto blurred = [&](std::uint64_t sample) {
    return applied<float>(op, op.draw(make_key(sample), in.shape), kImage, in);
  };
  EXPECT_EQ(blurred(1), blurred(1));
  EXPECT_NE(blurred(1), blurred(2));
  EXPECT_FALSE((GaussianBlur{9, {2, 2}}.is_random()));
}

TEST(GaussianBlur, TouchesOnlyImages) {
  const GaussianBlur op{3, {1, 1}};
  EXPECT_TRUE(op.touches(FieldKind::image));
  EXPECT_FALSE(op.touches(FieldKind::mask));
  EXPECT_FALSE(op.touches(FieldKind::label));
  EXPECT_FALSE(op.touches(FieldKind::other));
}

TEST(GaussianBlur, InvalidParametersAreRefused) {
  const auto refused = [](const GaussianBlur& op) { return thrown_by([&] { op.validate(); }); };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refused({1, {0.01, 0.01}}), "nothing");
  EXPECT_EQ(refused({63, {0.1, 1000}}), "nothing");
  for (const std::int64_t size : {-1, 0, 2, 64, 65}) {
    EXPECT_EQ(refused({size, {1, 1}}), "Refused: gaussian_blur: kernel_size is " +
                                           std::to_string(size) + "; it must be odd, 1 to 63");
  }
  EXPECT_THAT(refused({3, {2, 1}}), HasSubstr("sigma is 2 to 1"));
  for (const double sigma : {0.0, -1.0, 0.009, 1000.1, nan}) {
    EXPECT_THAT(refused({3, {sigma, sigma}}), HasSubstr("it must be 0.01 to 1000"));
  }
  EXPECT_THAT(refused({3, {1, nan}}), HasSubstr("Refused: gaussian_blur: sigma is"));
}

TEST(GaussianBlur, UnsupportedFieldsAreRefused) {
  const GaussianBlur op{5, {1, 1}};
  const auto refused = [&](DType dtype, const Shape& shape) {
    return thrown_by([&] { op.output(make_spec(kImage, dtype, shape)); });
  };
  EXPECT_EQ(refused(DType::uint8, {-1, -1, 4}), "nothing");
  EXPECT_EQ(refused(DType::float32, {3, 3, 1}), "nothing");
  EXPECT_THAT(refused(DType::int32, {-1, -1, 3}),
              HasSubstr("gaussian_blur: image 'photo' is int32"));
  EXPECT_THAT(refused(DType::uint8, {-1, -1, 5}), HasSubstr("1 to 4 channels"));
  EXPECT_THAT(refused(DType::uint8, {-1, -1}), HasSubstr("1 to 4 channels"));
  EXPECT_THAT(refused(DType::uint8, {2, 9, 3}), HasSubstr("needs more than 2 pixels per side"));
  EXPECT_THAT(refused(DType::uint8, {-1, 2, 3}), HasSubstr("needs more than 2 pixels per side"));
  EXPECT_THAT(
      thrown_by([&] {
        op.draw({}, {2, 9, 3});
      }),
      HasSubstr("Error: gaussian_blur: the image is 2 x 9 x 3; a kernel_size of 5 needs more"));
  EXPECT_THROW(op.draw({}, {2, 9, 3}), UnfitSample);
}

}  // namespace
}  // namespace slipstream
