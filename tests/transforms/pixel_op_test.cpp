#include "slipstream/transforms/pixel_op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "slipstream/transforms/transforms.h"
#include "support/pixel_functions.h"
#include "support/thrown.h"
#include "transforms/image_shapes.h"

namespace slipstream {
namespace {

using test::Solarize;
using testing::HasSubstr;

// The macro rejects these types, so they are defined without it.
struct Counted {
  Counted(const Counted&) {}
  float operator()(float value) const { return value; }
};
struct Large {
  float table[257];
  float operator()(float value) const { return value; }
};
struct InDouble {
  double operator()(double value) const { return value; }
};
struct Changing {
  float operator()(float value) { return value; }
};
struct WithoutText {
  float operator()(float value) const { return value; }
};
[[maybe_unused]] constexpr PixelFunctionText pixel_function_text(const Counted*) { return {}; }
[[maybe_unused]] constexpr PixelFunctionText pixel_function_text(const Large*) { return {}; }
[[maybe_unused]] constexpr PixelFunctionText pixel_function_text(const InDouble*) { return {}; }
[[maybe_unused]] constexpr PixelFunctionText pixel_function_text(const Changing*) { return {}; }

static_assert(PixelFunction<Solarize> && PixelFunction<test::Swapped>);
static_assert(!PixelFunction<Counted> && !PixelFunction<Large> && !PixelFunction<InDouble> &&
              !PixelFunction<Changing> && !PixelFunction<WithoutText>);
static_assert(kTakesPixels<test::Swapped, 3> && !kTakesPixels<test::Swapped, 1>);

TEST(PixelOpTest, Uint8IsScaledToUnitRangeAndFloatsAreUnchanged) {
  const PixelOp op{Solarize{0.5F}};
  for (const Shape& shape : list_shapes(3)) {
    const auto levels = level_image(shape);
    const auto floats = applied<float>(ToDtype{.scale = true}, {}, FieldKind::image, levels);
    const auto out = applied<float>(op, {}, FieldKind::image, levels);
    EXPECT_EQ(out, applied<float>(op, {}, FieldKind::image, floats));
    ASSERT_EQ(out.values.size(), levels.values.size());
    for (std::size_t i = 0; i < out.values.size(); ++i) {
      const float unit = static_cast<float>(levels.values[i]) / 255.0F;
      ASSERT_EQ(out.values[i], unit < 0.5F ? unit : 1.0F - unit);
    }
  }
}

TEST(PixelOpTest, FunctionReceivesAllChannelsOfAPixel) {
  const auto in = unit_image({5, 9, 3});
  const auto out = applied<float>(test::RandomSwap{}, {true}, FieldKind::image, in);
  for (std::int64_t y = 0; y < 5; ++y) {
    for (std::int64_t x = 0; x < 9; ++x) {
      EXPECT_EQ(out.at(y, x, 0), in.at(y, x, 2));
      EXPECT_EQ(out.at(y, x, 1), in.at(y, x, 0) * 0.3F + in.at(y, x, 1) * 0.6F);
      EXPECT_EQ(out.at(y, x, 2), in.at(y, x, 0));
    }
  }
  for (const std::int64_t channels : {1, 2, 4}) {
    const auto pixels = unit_image({3, 4, channels});
    const auto soft = applied<float>(PixelOp{test::Softened{}}, {}, FieldKind::image, pixels);
    for (std::int64_t c = 0; c < channels; ++c) {
      float most = 0;
      for (std::int64_t k = 0; k < channels; ++k) most = std::max(most, pixels.at(2, 3, k));
      EXPECT_EQ(soft.at(2, 3, c), std::sqrt(most * pixels.at(2, 3, c)));
    }
  }
}

TEST(PixelOpTest, ProvidesADeviceFunction) {
  const AnyOp fixed{PixelOp{Solarize{0.5F}}};
  EXPECT_EQ(fixed.name(), "Solarize");
  EXPECT_EQ(fixed.drawn_bytes(), 0U);
  EXPECT_FALSE(fixed.is_random());
  EXPECT_FALSE(fixed.touches(FieldKind::mask));
  const auto function = fixed.device_function();
  ASSERT_TRUE(function);
  EXPECT_EQ(function->name, "Solarize");
  EXPECT_THAT(std::string(function->definition), HasSubstr("struct Solarize { float threshold;"));
  ASSERT_EQ(function->fixed.size(), sizeof(float));
  float threshold = 0;
  std::memcpy(&threshold, function->fixed.data(), sizeof(threshold));
  EXPECT_EQ(threshold, 0.5F);

  const AnyOp drawn{test::RandomSolarize{}};
  EXPECT_EQ(drawn.drawn_bytes(), sizeof(Solarize));
  EXPECT_TRUE(drawn.device_function()->fixed.empty());
  EXPECT_FALSE(AnyOp{ToDtype{.scale = true}}.device_function());
}

TEST(PixelOpTest, UnsupportedImagesAreRefused) {
  const auto refusal = [](const auto& op, DType dtype, const Shape& shape) {
    return thrown_by([&] { op.output(make_spec(FieldKind::image, dtype, shape)); });
  };
  EXPECT_THAT(refusal(test::RandomSwap{}, DType::uint8, {4, 5, 4}),
              HasSubstr("Refused: Swapped: image 'photo' is 4 x 5 x 4; the function takes 3"));
  EXPECT_THAT(refusal(PixelOp{Solarize{}}, DType::int32, {4, 5, 3}),
              HasSubstr("Refused: Solarize"));
  EXPECT_THAT(refusal(PixelOp{Solarize{}}, DType::uint8, {4, 5, 5}), HasSubstr("1 to 4"));
}

}  // namespace
}  // namespace slipstream
