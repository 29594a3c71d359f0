#include "slipstream/transforms/color.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/thrown.h"
#include "transforms/image_shapes.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

template <typename T>
void expect_gray(const Pixels<T>& image) {
  const auto out = applied<T>(Grayscale{3}, {true}, FieldKind::image, image);
  for (std::size_t i = 0; i < image.values.size(); i += 3) {
    const auto* p = &image.values[i];
    float y = 0.2989F * static_cast<float>(p[0]);
    y = std::fma(0.587F, static_cast<float>(p[1]), y);
    y = std::fma(0.114F, static_cast<float>(p[2]), y);
    if (image.dtype == DType::uint8) y = std::nearbyint(y);
    for (std::size_t c = 0; c < 3; ++c) ASSERT_EQ(static_cast<float>(out.values[i + c]), y);
  }
  EXPECT_EQ(applied<T>(RandomGrayscale{}, {true}, FieldKind::image, image), out);
  EXPECT_EQ(applied<T>(RandomGrayscale{}, {false}, FieldKind::image, image), image);
}

TEST(Grayscale, SetsAllChannelsToTheGrayLevel) {
  for (const Shape& shape : list_shapes(3)) {
    expect_gray(level_image(shape));
    expect_gray(unit_image(shape));
  }
}

TEST(RandomGrayscale, IsAppliedWithItsProbability) {
  int gray = 0;
  for (std::uint64_t sample = 0; sample < 10'000; ++sample) {
    const bool is_gray = RandomGrayscale{0.2}.draw(make_key(sample), {}).is_gray;
    EXPECT_EQ(RandomStream(make_key(sample)).uniform() < 0.2, is_gray);
    EXPECT_TRUE(Grayscale{3}.draw(make_key(sample), {}).is_gray);
    gray += is_gray ? 1 : 0;
  }
  EXPECT_NEAR(gray, 2000, 200);
  EXPECT_TRUE(RandomGrayscale{0.2}.is_random());
  EXPECT_FALSE(Grayscale{3}.is_random());
}

TEST(Grayscale, InvalidParametersAndFieldsAreRefused) {
  EXPECT_THAT(thrown_by([] { RandomGrayscale{-0.5}.validate(); }),
              HasSubstr("Refused: random_grayscale: p is -0.5"));
  EXPECT_EQ(thrown_by([] { Grayscale{3}.validate(); }), "nothing");
  for (const std::int64_t channels : {0, 1, 4})
    EXPECT_THAT(thrown_by([&] { Grayscale{channels}.validate(); }),
                HasSubstr("Refused: grayscale: num_output_channels is " + std::to_string(channels) +
                          "; it must be 3"));
  EXPECT_EQ(refused_field(Grayscale{3}, DType::float32, {-1, -1, 3}), "nothing");
  EXPECT_THAT(refused_field(RandomGrayscale{}, DType::uint8, {2, 2, 1}),
              HasSubstr("random_grayscale: image"));
  EXPECT_THAT(refused_field(Grayscale{3}, DType::uint8, {2, 2, 1}),
              HasSubstr("2 x 2 x 1; it must be uint8 or float32, height x width x 3"));
  EXPECT_THAT(refused_field(Grayscale{3}, DType::int64, {2, 2, 3}), HasSubstr("int64"));
}

template <typename T>
void expect_converted(const ConvertColor& op, const Pixels<T>& image) {
  const auto out = applied<float>(op, {}, FieldKind::image, image);
  EXPECT_EQ(out.dtype, DType::float32);
  for (std::size_t i = 0; i < image.values.size(); ++i) {
    float sum = static_cast<float>(op.offset[i % 3]);
    double exact = op.offset[i % 3];
    for (std::size_t from = 0; from < 3; ++from) {
      const double weight = op.matrix[i % 3 * 3 + from];
      const auto value = static_cast<float>(image.values[i / 3 * 3 + from]);
      sum = std::fma(static_cast<float>(weight), value, sum);
      exact += weight * value;
    }
    ASSERT_EQ(out.values[i], sum);
    ASSERT_NEAR(out.values[i], exact, 1e-4);
  }
}

TEST(ConvertColor, MultipliesByTheMatrix) {
  const ConvertColor other{{1, 2, 3, 4, 5, 6, -0.1, 0.2, -0.3}, {7, 8, 9}};
  for (const Shape& shape : list_shapes(3)) {
    expect_converted(ConvertColor{}, level_image(shape));
    expect_converted(ConvertColor{}, unit_image(shape));
    expect_converted(other, level_image(shape));
  }
}

// From ITU-T T.871: white and black have neutral color values, and pure colors reach the ends of
// the range.
TEST(ConvertColor, DefaultIsFullRangeYCbCr) {
  const Pixels<std::uint8_t> image{
      DType::uint8, {1, 4, 3}, {255, 255, 255, 0, 0, 0, 255, 0, 0, 0, 0, 255}};
  const auto out = applied<float>(ConvertColor{}, {}, FieldKind::image, image);
  const std::vector<double> expected = {255,    128,     128,   0,     128,   128,
                                        76.245, 84.9713, 255.5, 29.07, 255.5, 107.266};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(out.values[i], expected[i], 1e-3);
}

TEST(ConvertColor, InvalidParametersAndFieldsAreRefused) {
  ConvertColor op;
  EXPECT_EQ(thrown_by([&] { op.validate(); }), "nothing");
  op.offset[1] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(thrown_by([&] { op.validate(); }),
            "Refused: convert_color: a number of the offset is inf; it must be a number");
  op.matrix[8] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(thrown_by([&] { op.validate(); }), HasSubstr("a number of the matrix is nan"));
  EXPECT_THAT(refused_field(op, DType::uint8, {2, 2, 4}), HasSubstr("height x width x 3"));
  EXPECT_THAT(refused_field(op, DType::int32, {2, 2, 3}), HasSubstr("int32"));
}

template <typename T>
void expect_divided(double divisor, const Pixels<T>& image) {
  const auto out = applied<float>(Divide{divisor}, {}, FieldKind::image, image);
  EXPECT_EQ(out.dtype, DType::float32);
  for (std::size_t i = 0; i < image.values.size(); ++i) {
    ASSERT_EQ(out.values[i], static_cast<float>(image.values[i]) / static_cast<float>(divisor));
  }
}

TEST(Divide, DividesEveryValueByTheDivisor) {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    for (const Shape& shape : list_shapes(channels)) {
      expect_divided(255, level_image(shape));
      expect_divided(0.3, level_image(shape));
      expect_divided(-7, unit_image(shape));
    }
  }
}

TEST(Divide, InvalidParametersAndFieldsAreRefused) {
  EXPECT_EQ(thrown_by([] { Divide{-2}.validate(); }), "nothing");
  EXPECT_EQ(thrown_by([] { Divide{0}.validate(); }),
            "Refused: divide: the divisor is 0; it must not be 0");
  EXPECT_THAT(thrown_by([] { Divide{1e-60}.validate(); }), HasSubstr("it must not be 0"));
  EXPECT_THAT(thrown_by([] { Divide{1e60}.validate(); }), HasSubstr("it must be a number"));
  EXPECT_THAT(refused_field(Divide{}, DType::uint8, {2, 2, 5}), HasSubstr("1 to 4 channels"));
  EXPECT_THAT(refused_field(Divide{}, DType::int32, {2, 2, 3}), HasSubstr("int32"));
}

TEST(Color, TouchesOnlyImages) {
  for (const FieldKind kind : {FieldKind::mask, FieldKind::label, FieldKind::other}) {
    EXPECT_FALSE(Grayscale{3}.touches(kind));
    EXPECT_FALSE(ConvertColor{}.touches(kind));
    EXPECT_FALSE(Divide{}.touches(kind));
  }
  EXPECT_TRUE(Grayscale{3}.touches(FieldKind::image));
  EXPECT_TRUE(ConvertColor{}.touches(FieldKind::image));
  EXPECT_TRUE(Divide{}.touches(FieldKind::image));
  EXPECT_FALSE(ConvertColor{}.is_random());
  EXPECT_FALSE(Divide{}.is_random());
}

}  // namespace
}  // namespace slipstream
