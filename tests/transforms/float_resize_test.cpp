#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/thrown.h"
#include "transforms/float_images.h"
#include "transforms/pixel_field.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

constexpr auto kFloatResizeImage = FieldKind::image;

constexpr ResizedTo kGrown[] = {{1, 1, 3, 4}, {5, 7, 5, 19}, {6, 4, 13, 4}, {9, 11, 27, 12}};
constexpr ResizedTo kShrunk[] = {{9, 8, 4, 3}, {33, 40, 1, 1}, {17, 64, 16, 9}, {5, 30, 5, 7}};
constexpr ResizedTo kMixed[] = {{9, 5, 3, 8}, {4, 50, 6, 11}, {7, 40, 5, 33}};

/// Interpolates value_at(input) for output i of one axis, as defined in the header.
template <typename ValueAt>
float expected_bilinear(std::int64_t i, std::int64_t in, std::int64_t out, ValueAt value_at) {
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  const float center = (static_cast<float>(i) + 0.5F) * scale;
  const float at = std::max(center - 0.5F, 0.0F);
  const auto first = static_cast<std::int64_t>(at);
  if (first >= in - 1) return value_at(in - 1);
  const float weight = at - static_cast<float>(first);
  return std::fma(weight, value_at(first + 1) - value_at(first), value_at(first));
}

double triangle(std::int64_t at, std::int64_t i, double scale) {
  const double distance = (static_cast<double>(at) + 0.5) - (static_cast<double>(i) + 0.5) * scale;
  return std::max(0.0, 1 - std::abs(distance) / scale);
}

/// Averages for output i of an axis that shrinks, with weights of 22 fractional bits.
template <typename ValueAt>
float expected_antialiased(std::int64_t i, std::int64_t in, std::int64_t out, ValueAt value_at) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  double total = 0;
  for (std::int64_t at = 0; at < in; ++at) total += triangle(at, i, scale);
  float sum = 0;
  for (std::int64_t at = 0; at < in; ++at) {
    const double weight = std::floor(triangle(at, i, scale) / total * 0x1p22 + 0.5) * 0x1p-22;
    if (weight > 0) sum = std::fma(static_cast<float>(weight), value_at(at), sum);
  }
  return sum;
}

template <typename T>
Pixels<T> expected_resize(const Resize& op, const Pixels<T>& in) {
  const auto axis = [&](std::int64_t i, std::int64_t from, std::int64_t to, auto value_at) {
    return op.antialias && from > to ? expected_antialiased(i, from, to, value_at)
                                     : expected_bilinear(i, from, to, value_at);
  };
  Pixels<float> across{DType::float32, {in.shape[0], op.size.width, in.shape[2]}, {}};
  for (std::int64_t y = 0; y < in.shape[0]; ++y) {
    for (std::int64_t x = 0; x < op.size.width; ++x) {
      for (std::int64_t c = 0; c < in.shape[2]; ++c) {
        across.values.push_back(axis(x, in.shape[1], op.size.width, [&](std::int64_t at) {
          return static_cast<float>(in.at(y, at, c));
        }));
      }
    }
  }
  Pixels<T> out{in.dtype, {op.size.height, op.size.width, in.shape[2]}, {}};
  for (std::int64_t y = 0; y < op.size.height; ++y) {
    for (std::int64_t x = 0; x < op.size.width; ++x) {
      for (std::int64_t c = 0; c < in.shape[2]; ++c) {
        out.values.push_back(held<T>(axis(y, in.shape[0], op.size.height,
                                          [&](std::int64_t at) { return across.at(at, x, c); })));
      }
    }
  }
  return out;
}

TEST(FloatResize, WithoutAntialiasMatchesBilinearReferenceBitForBit) {
  for_each_image_kind([](auto kind, std::int64_t channels) {
    using T = decltype(kind);
    for (const auto& cases : {std::span<const ResizedTo>(kGrown), {kShrunk}, {kMixed}}) {
      for (const ResizedTo& size : cases) {
        const Resize op{{size.to_height, size.to_width}, false};
        const auto in = picture<T>(size.height, size.width, channels);
        EXPECT_EQ(applied<T>(op, {}, kFloatResizeImage, in), expected_resize(op, in))
            << to_text(size);
      }
    }
  });
}

TEST(FloatResize, UpscalingIsTheSameWithAndWithoutAntialias) {
  for (const ResizedTo& size : kGrown) {
    const auto in = picture<float>(size.height, size.width, 3);
    const auto [height, width] = std::array{size.to_height, size.to_width};
    EXPECT_EQ(applied<float>(Resize{{height, width}, true}, {}, kFloatResizeImage, in),
              applied<float>(Resize{{height, width}, false}, {}, kFloatResizeImage, in))
        << to_text(size);
  }
}

TEST(FloatResize, WithAntialiasMatchesFilterReferenceBitForBit) {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    for (const auto& cases : {std::span<const ResizedTo>(kShrunk), {kMixed}}) {
      for (const ResizedTo& size : cases) {
        const Resize op{{size.to_height, size.to_width}};
        const auto in = picture<float>(size.height, size.width, channels);
        EXPECT_EQ(applied<float>(op, {}, kFloatResizeImage, in), expected_resize(op, in))
            << to_text(size) << ", " << channels << " channels";
      }
    }
  }
}

TEST(FloatResize, WithAntialiasMatchesDoublePrecisionConvolution) {
  for (const ResizedTo& size : kShrunk) {
    const auto in = picture<float>(size.height, size.width, 1);
    const auto out =
        applied<float>(Resize{{size.to_height, size.to_width}}, {}, kFloatResizeImage, in);
    const double down = static_cast<double>(size.height) / static_cast<double>(size.to_height);
    const double across = static_cast<double>(size.width) / static_cast<double>(size.to_width);
    for (std::int64_t y = 0; y < size.to_height; ++y) {
      for (std::int64_t x = 0; x < size.to_width; ++x) {
        double sum = 0;
        double weights = 0;
        for (std::int64_t v = 0; v < size.height; ++v) {
          for (std::int64_t u = 0; u < size.width; ++u) {
            const double weight = triangle(v, y, down) * triangle(u, x, across);
            sum += weight * static_cast<double>(in.at(v, u));
            weights += weight;
          }
        }
        EXPECT_NEAR(out.at(y, x), sum / weights, 1e-5) << to_text(size);
      }
    }
  }
}

TEST(FloatResize, RoundsUint8HalvesToEven) {
  const Pixels<std::uint8_t> in{DType::uint8, {1, 4, 1}, {0, 1, 2, 3}};
  EXPECT_EQ(applied<std::uint8_t>(Resize{{1, 2}, false}, {}, kFloatResizeImage, in).values,
            (Levels{0, 2}));
}

TEST(FloatResize, SameSizeKeepsTheImage) {
  for_each_image_kind([](auto kind, std::int64_t channels) {
    using T = decltype(kind);
    const auto in = picture<T>(9, 70, channels);
    EXPECT_EQ(applied<T>(Resize{{9, 70}, false}, {}, kFloatResizeImage, in), in);
  });
  const auto in = picture<float>(9, 70, 4);
  EXPECT_EQ(applied<float>(Resize{{9, 70}, true}, {}, kFloatResizeImage, in), in);
}

// Pixels outside of the crop must not influence the result.
TEST(FloatResize, CropAndResizeEqualsResizeOfTheCroppedPixels) {
  for_each_image_kind([](auto kind, std::int64_t channels) {
    using T = decltype(kind);
    const auto in = picture<T>(40, 50, channels);
    for (const bool antialias : {false, true}) {
      const RandomResizedCrop op{{12, 16}, {0.05, 0.9}, {0.5, 2}, antialias};
      for (std::uint64_t sample = 0; sample < 30; ++sample) {
        const DrawnCrop drawn = op.draw(make_key(sample), in.shape);
        const CenterCrop crop{{drawn.region.height, drawn.region.width}};
        const auto part = applied<T>(crop, drawn, kFloatResizeImage, in);
        ASSERT_EQ(applied<T>(op, drawn, kFloatResizeImage, in),
                  applied<T>(Resize{{12, 16}, antialias}, {}, kFloatResizeImage, part));
      }
      const DrawnCrop whole{{0, 0, 40, 50}, 40, 50};
      EXPECT_EQ(applied<T>(op, whole, kFloatResizeImage, in),
                applied<T>(Resize{{12, 16}, antialias}, {}, kFloatResizeImage, in));
    }
  });
}

TEST(FloatResize, CropsAreTheSameWithAndWithoutAntialias) {
  for (std::uint64_t sample = 0; sample < 100; ++sample) {
    RandomResizedCrop op{8};
    const Region with = op.draw(make_key(sample), {60, 80, 3}).region;
    op.antialias = false;
    EXPECT_EQ(op.draw(make_key(sample), {60, 80, 3}).region, with);
  }
}

TEST(FloatResize, WithoutAntialiasReducedDecodingIsNotUsed) {
  const DrawnCrop drawn{{0, 0, 80, 80}, 80, 80};
  EXPECT_TRUE((Resize{{8, 8}, true}.only_resizes()));
  EXPECT_FALSE((Resize{{8, 8}, false}.only_resizes()));
  EXPECT_EQ((Resize{{8, 8}, true}.reduction(drawn)), 10);
  EXPECT_EQ((Resize{{8, 8}, false}.reduction(drawn)), 1);
  RandomResizedCrop crop{8};
  EXPECT_TRUE(crop.only_resizes());
  EXPECT_EQ(crop.reduction(drawn), 10);
  crop.antialias = false;
  EXPECT_FALSE(crop.only_resizes());
  EXPECT_EQ(crop.reduction(drawn), 1);
}

TEST(FloatResize, AntialiasDoesNotChangeMasks) {
  const auto mask = counted<std::int32_t>(DType::int32, {9, 7});
  EXPECT_EQ(applied<std::int32_t>(Resize{{4, 5}, false}, {}, FieldKind::mask, mask),
            applied<std::int32_t>(Resize{{4, 5}, true}, {}, FieldKind::mask, mask));
}

TEST(FloatResize, WithoutAntialiasAcceptsUint8AndFloat32Images) {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    for (const DType dtype : {DType::uint8, DType::float32}) {
      const FieldSpec after =
          Resize{{4, 6}, false}.output(make_spec(kFloatResizeImage, dtype, {-1, -1, channels}));
      EXPECT_EQ(after.shape, Shape({4, 6, channels}));
      EXPECT_EQ(after.dtype, dtype);
    }
  }
  const auto refused = [](DType dtype, const Shape& shape) {
    return thrown_by([&] {
      Resize{{4, 6}, false}.output(make_spec(kFloatResizeImage, dtype, shape));
    });
  };
  EXPECT_THAT(refused(DType::int64, {-1, -1, 3}),
              HasSubstr("Refused: resize: image 'photo' is int64"));
  EXPECT_THAT(refused(DType::uint8, {-1, -1, 5}), HasSubstr("1 to 4 channels"));
  EXPECT_THAT(refused(DType::float32, {-1, -1}), HasSubstr("height x width x channels"));
}

TEST(FloatResize, InvalidSidesAndEmptyImagesAreRefused) {
  for (const Resize op : {Resize{{0, 4}, false}, Resize{{4, 0}, false}, Resize{{4, -1}, false}}) {
    EXPECT_THAT(thrown_by([&] { op.validate(); }), HasSubstr("must be 1 to 65536"));
  }
  const Pixels<float> none{DType::float32, {0, 5, 1}, {}};
  EXPECT_THAT(thrown_by([&] {
                applied<float>(Resize{{4, 4}}, {}, kFloatResizeImage, none);
              }),
              HasSubstr("Error: resize: the field has no pixels"));
}

TEST(StoredLevels, AreRoundedToEvenAndClamped) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> some = {-kInfinity, -3e9F, -0.6F,   -0.0F,    0.5F,   0.50001F,
                                   1.5F,       2.5F,  127.49F, 127.5F,   128.5F, 254.5F,
                                   255.4F,     256,   3e9F,    kInfinity};
  const std::vector<std::uint8_t> expected = {0,   0,   0,   0,   0,   1,   2,   2,
                                              127, 128, 128, 254, 255, 255, 255, 255};
  // the start decides which values are converted as vectors and which one by one
  for (std::size_t first = 0; first < some.size(); ++first) {
    std::vector<float> values(some.begin() + static_cast<std::ptrdiff_t>(first), some.end());
    values.insert(values.end(), some.begin(), some.end());
    std::vector<std::uint8_t> levels(values.size());
    store_levels(values.data(), static_cast<std::int64_t>(values.size()), levels.data());
    for (std::size_t i = 0; i < levels.size(); ++i) {
      EXPECT_EQ(levels[i], expected[(first + i) % expected.size()]) << values[i];
    }
  }
}

}  // namespace
}  // namespace slipstream
