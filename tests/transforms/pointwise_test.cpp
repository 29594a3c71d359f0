#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "slipstream/transforms/transforms.h"
#include "support/thrown.h"
#include "transforms/image_shapes.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

const Normalize kUsual{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

Pixels<std::uint8_t> all_levels() {
  Pixels<std::uint8_t> pixels{DType::uint8, {16, 16, 3}, {}};
  for (int i = 0; i < 768; ++i) pixels.values.push_back(static_cast<std::uint8_t>(i / 3));
  return pixels;
}

TEST(ToDtype, DividesEveryLevelBy255) {
  const auto out = applied<float>(ToDtype{.scale = true}, {}, FieldKind::image, all_levels());
  EXPECT_EQ(out.dtype, DType::float32);
  for (int level = 0; level < 256; ++level) {
    EXPECT_EQ(out.at(level / 16, level % 16), static_cast<float>(level / 255.0));
  }
  EXPECT_EQ(out.at(15, 15), 1.0f);
}

// The values were computed with numpy: (np.float32(level) / np.float32(255) - np.float32(mean)) /
// np.float32(std)
TEST(Normalize, MatchesGoldenValues) {
  const auto out = applied<float>(kUsual, {}, FieldKind::image, all_levels());
  EXPECT_EQ(out.at(0, 0, 0), -2.117904f);
  EXPECT_EQ(out.at(0, 0, 2), -1.8044444f);
  EXPECT_EQ(out.at(7, 15, 1), 1.8767506e-01f);
  EXPECT_EQ(out.at(12, 8, 0), 1.3070468f);
  EXPECT_EQ(out.at(15, 15, 2), 2.64f);
}

TEST(Normalize, Uint8AndScaledFloatsGiveSameResult) {
  const auto floats = applied<float>(ToDtype{.scale = true}, {}, FieldKind::image, all_levels());
  EXPECT_EQ(applied<float>(kUsual, {}, FieldKind::image, all_levels()),
            applied<float>(kUsual, {}, FieldKind::image, floats));
}

template <typename T>
void expect_normalized(const Normalize& op, const Pixels<T>& image) {
  const auto out = applied<float>(op, {}, FieldKind::image, image);
  const auto channels = static_cast<std::size_t>(image.shape[2]);
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    auto value = static_cast<float>(image.values[i]);
    if (image.dtype == DType::uint8) value = value / 255.0F;
    const auto mean = static_cast<float>(op.channel_mean(i % channels));
    const auto std = static_cast<float>(op.channel_std(i % channels));
    ASSERT_EQ(out.values[i], (value - mean) / std) << i << " of " << to_string(image.shape);
  }
}

TEST(Normalize, AcceptsOneToFourChannels) {
  const std::vector<double> mean = {0.485, 0.456, 0.406, -3};
  const std::vector<double> std = {0.229, 0.224, 0.225, 0.7};
  for (std::int64_t channels = 1; channels <= 4; ++channels) {
    const Normalize op{{mean.begin(), mean.begin() + channels},
                       {std.begin(), std.begin() + channels}};
    EXPECT_EQ(thrown_by([&] { op.validate(); }), "nothing");
    for (const Shape& shape : list_shapes(channels)) {
      expect_normalized(op, level_image(shape));
      expect_normalized(op, unit_image(shape));
    }
  }
}

TEST(Normalize, SingleNumberAppliesToAllChannels) {
  for (std::int64_t channels = 1; channels <= 4; ++channels) {
    const Shape shape = {5, 7, channels};
    expect_normalized(Normalize{{0.5}, {0.25}}, level_image(shape));
    expect_normalized(Normalize{{0.5}, {0.25}}, unit_image(shape));
  }
  expect_normalized(Normalize{{0.5}, {0.1, 0.2, 0.3}}, level_image({5, 7, 3}));
  expect_normalized(Normalize{{0.1, 0.2, 0.3}, {0.5}}, unit_image({5, 7, 3}));
  const std::vector<double> half = {0.5, 0.5, 0.5};
  EXPECT_EQ(applied<float>(Normalize{{0.5}, {0.5}}, {}, FieldKind::image, all_levels()),
            applied<float>(Normalize{half, half}, {}, FieldKind::image, all_levels()));
}

TEST(ToDtype, AcceptsImagesOfAnySize) {
  for (std::int64_t channels = 1; channels <= 4; ++channels) {
    for (const Shape& shape : list_shapes(channels)) {
      const auto image = level_image(shape);
      const auto out = applied<float>(ToDtype{.scale = true}, {}, FieldKind::image, image);
      ASSERT_EQ(out.values.size(), image.values.size());
      for (std::size_t i = 0; i < out.values.size(); ++i) {
        ASSERT_EQ(out.values[i], static_cast<float>(image.values[i] / 255.0));
      }
    }
  }
}

TEST(ToDtype, WithoutScaleKeepsValues) {
  const auto image = all_levels();
  const auto out = applied<float>(ToDtype{}, {}, FieldKind::image, image);
  for (std::size_t i = 0; i < out.values.size(); ++i)
    ASSERT_EQ(out.values[i], static_cast<float>(image.values[i]));
}

TEST(ToDtype, KeepsFloatImages) {
  const auto image = unit_image({5, 7, 3});
  EXPECT_EQ(applied<float>(ToDtype{.scale = true}, {}, FieldKind::image, image), image);
  EXPECT_EQ(applied<float>(ToDtype{}, {}, FieldKind::image, image), image);
}

TEST(ToDtype, DtypeOtherThanFloat32IsRefused) {
  EXPECT_EQ(thrown_by([] { ToDtype{}.validate(); }), "nothing");
  EXPECT_EQ(thrown_by([] { ToDtype{DType::int64}.validate(); }),
            "Refused: to_dtype: the dtype is int64; it must be float32");
}

TEST(Pointwise, TouchesOnlyImages) {
  for (const FieldKind kind : {FieldKind::mask, FieldKind::label, FieldKind::other}) {
    EXPECT_FALSE(ToDtype{.scale = true}.touches(kind));
    EXPECT_FALSE(kUsual.touches(kind));
  }
  EXPECT_TRUE(ToDtype{.scale = true}.touches(FieldKind::image));
  EXPECT_TRUE(kUsual.touches(FieldKind::image));
  EXPECT_FALSE(ToDtype{.scale = true}.is_random());
  EXPECT_FALSE(kUsual.is_random());
}

TEST(Pointwise, UnsupportedFieldsAreRefused) {
  const auto refused = [](const auto& op, DType dtype, const Shape& shape) {
    return thrown_by([&] { op.output(make_spec(FieldKind::image, dtype, shape)); });
  };
  EXPECT_EQ(refused(ToDtype{.scale = true}, DType::uint8, {-1, -1, 4}), "nothing");
  EXPECT_EQ(refused(ToDtype{.scale = true}, DType::float32, {2, 2, 3}), "nothing");
  EXPECT_EQ(refused(ToDtype{.scale = true}, DType::int32, {2, 2, 3}),
            "Refused: to_dtype: image 'photo' is int32, 2 x 2 x 3; it must be uint8 or float32");
  EXPECT_EQ(refused(kUsual, DType::float32, {-1, -1, 3}), "nothing");
  EXPECT_THAT(refused(kUsual, DType::uint8, {-1, -1, 1}),
              HasSubstr("uint8 or float32, height x width x 3"));
  EXPECT_THAT(refused(kUsual, DType::int32, {-1, -1, 3}), HasSubstr("image 'photo' is int32"));
  const Normalize one = {{0.5}, {0.5}};
  EXPECT_EQ(refused(one, DType::uint8, {-1, -1, 3}), "nothing");
  EXPECT_THAT(refused(one, DType::uint8, {-1, -1, 5}), HasSubstr("height x width x 1 to 4"));
  EXPECT_THAT(refused(Normalize{{0.5}, {1, 2, 3}}, DType::uint8, {-1, -1, 4}),
              HasSubstr("height x width x 3"));
}

TEST(Normalize, InvalidParametersAreRefused) {
  const auto refused = [](const Normalize& op) { return thrown_by([&] { op.validate(); }); };
  EXPECT_EQ(refused(kUsual), "nothing");
  EXPECT_THAT(refused({{0, 0, 0}, {1, 0, 1}}), HasSubstr("std is 1, 0, 1"));
  EXPECT_THAT(refused({{0, 0, 0}, {1, 1e-60, 1}}), HasSubstr("std must be above 0"));
  EXPECT_EQ(refused({{0, 0}, {1}}), "nothing");
  EXPECT_EQ(refused({{0}, {1, 2, 3, 4}}), "nothing");
  EXPECT_EQ(refused({{0, 0}, {1, 2, 3}}),
            "Refused: normalize: mean is 0, 0, std is 1, 2, 3; each must have one number, or one "
            "for each channel (one to four); all must be finite, and std must be above 0");
  EXPECT_THAT(refused({{}, {1}}), HasSubstr("one for each channel"));
  EXPECT_THAT(refused({{0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}}), HasSubstr("one to four"));
  EXPECT_THAT(refused({{}, {}}), HasSubstr("one to four"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refused({{0, nan, 0}, {1, 1, 1}}), HasSubstr("all must be finite"));
}

}  // namespace
}  // namespace slipstream
