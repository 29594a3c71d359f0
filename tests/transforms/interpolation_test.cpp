#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "slipstream/transforms/chain.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "support/thrown.h"
#include "transforms/float_images.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

constexpr auto kInterpolated = FieldKind::image;

constexpr ResizedTo kResizes[] = {{1, 1, 3, 4},   {2, 3, 9, 7},     {5, 7, 5, 19},  {33, 40, 1, 1},
                                  {9, 8, 4, 3},   {17, 64, 16, 9},  {4, 50, 6, 11}, {7, 40, 5, 33},
                                  {12, 9, 6, 18}, {90, 100, 20, 30}};

/// The cubic curve of Keys (1981).
double cubic_curve(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/// Returns the weight of each input for output i of one axis, with 22 fractional bits.
std::vector<double> cubic_weights(std::int64_t i, std::int64_t in, std::int64_t out,
                                  bool antialias) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double stretch = antialias ? std::max(1.0, scale) : 1.0;
  const double center = (static_cast<double>(i) + 0.5) * scale - 0.5;
  const auto first = static_cast<std::int64_t>(std::floor(center - 2 * stretch)) - 1;
  const auto last = static_cast<std::int64_t>(std::ceil(center + 2 * stretch)) + 1;
  std::vector<double> weights(static_cast<std::size_t>(in));
  for (std::int64_t at = first; at <= last; ++at) {
    // Without antialiasing, pixels outside have the value of the pixel at the edge.
    if (antialias && (at < 0 || at >= in)) continue;
    const auto inside = static_cast<std::size_t>(std::clamp<std::int64_t>(at, 0, in - 1));
    weights[inside] +=
        cubic_curve((static_cast<double>(at) - center) / stretch, antialias ? -0.5 : -0.75);
  }
  double total = 0;
  for (const double weight : weights) total += weight;
  for (double& weight : weights) weight = std::round(weight / total * 0x1p22) * 0x1p-22;
  return weights;
}

/// Filters one axis. Levels are summed exactly and rounded to 0 to 255; floats are accumulated with
/// fma.
template <typename T, typename ValueAt>
T filtered_value(const std::vector<double>& weights, ValueAt value_at) {
  if constexpr (sizeof(T) == 1) {
    double sum = 0;
    for (std::size_t at = 0; at < weights.size(); ++at) sum += weights[at] * value_at(at);
    return static_cast<T>(std::clamp(std::floor(sum + 0.5), 0.0, 255.0));
  } else {
    float sum = 0;
    for (std::size_t at = 0; at < weights.size(); ++at) {
      if (weights[at] != 0) sum = std::fma(static_cast<float>(weights[at]), value_at(at), sum);
    }
    return sum;
  }
}

template <typename T>
Pixels<T> expected_bicubic(const Resize& op, const Pixels<T>& in) {
  Pixels<T> across{in.dtype, {in.shape[0], op.size.width, in.shape[2]}, {}};
  for (std::int64_t y = 0; y < in.shape[0]; ++y) {
    for (std::int64_t x = 0; x < op.size.width; ++x) {
      const auto weights = cubic_weights(x, in.shape[1], op.size.width, op.antialias);
      for (std::int64_t c = 0; c < in.shape[2]; ++c) {
        across.values.push_back(filtered_value<T>(
            weights, [&](std::size_t at) { return in.at(y, static_cast<std::int64_t>(at), c); }));
      }
    }
  }
  Pixels<T> out{in.dtype, {op.size.height, op.size.width, in.shape[2]}, {}};
  for (std::int64_t y = 0; y < op.size.height; ++y) {
    const auto weights = cubic_weights(y, in.shape[0], op.size.height, op.antialias);
    for (std::int64_t x = 0; x < op.size.width; ++x) {
      for (std::int64_t c = 0; c < in.shape[2]; ++c) {
        out.values.push_back(filtered_value<T>(weights, [&](std::size_t at) {
          return across.at(static_cast<std::int64_t>(at), x, c);
        }));
      }
    }
  }
  return out;
}

Resize make_resize(const ResizedTo& size, bool antialias, Interpolation interpolation) {
  return {{size.to_height, size.to_width}, antialias, interpolation};
}

TEST(Bicubic, MatchesReferenceBitForBit) {
  for_each_image_kind([](auto kind, std::int64_t channels) {
    using T = decltype(kind);
    for (const ResizedTo& size : kResizes) {
      for (const bool antialias : {false, true}) {
        const Resize op = make_resize(size, antialias, Interpolation::bicubic);
        const auto in = picture<T>(size.height, size.width, channels);
        EXPECT_EQ(applied<T>(op, {}, kInterpolated, in), expected_bicubic(op, in))
            << to_text(size) << (antialias ? ", antialiased" : "");
      }
    }
  });
}

TEST(Bicubic, UniformColorIsUnchanged) {
  for (const bool antialias : {false, true}) {
    for (const ResizedTo& size : kResizes) {
      const Resize op = make_resize(size, antialias, Interpolation::bicubic);
      const Pixels<std::uint8_t> white{
          DType::uint8,
          {size.height, size.width, 3},
          Levels(static_cast<std::size_t>(size.height * size.width * 3), 255)};
      EXPECT_THAT(applied<std::uint8_t>(op, {}, kInterpolated, white).values, testing::Each(255));
    }
  }
}

TEST(Bicubic, CropReadsOnlyItsRegion) {
  RandomResizedCrop op{{13, 11}};
  op.interpolation = Interpolation::bicubic;
  for (const bool antialias : {false, true}) {
    op.antialias = antialias;
    for (std::uint64_t sample = 0; sample < 20; ++sample) {
      const auto image = picture<std::uint8_t>(40, 50, 3);
      const DrawnCrop drawn = op.draw(make_key(sample), image.shape);
      const Region& region = drawn.region;
      Pixels<std::uint8_t> part{DType::uint8, {region.height, region.width, 3}, {}};
      for (std::int64_t i = 0; i < region.height * region.width * 3; ++i) {
        part.values.push_back(
            image.at(region.top + i / 3 / region.width, region.left + i / 3 % region.width, i % 3));
      }
      EXPECT_EQ(applied<std::uint8_t>(op, drawn, kInterpolated, image),
                applied<std::uint8_t>(Resize{{13, 11}, antialias, Interpolation::bicubic}, {},
                                      kInterpolated, part));
      EXPECT_EQ(op.reduction(drawn), 1) << "scaled decoding is for bilinear resizes";
    }
  }
}

/// Resizes a row whose values are its positions.
template <typename T>
std::vector<T> resized_row(Interpolation interpolation, FieldKind kind, std::int64_t in,
                           std::int64_t out) {
  Pixels<T> row{get_dtype<T>(), {1, in, 1}, {}};
  if (kind == FieldKind::mask) row.shape = {1, in};
  for (std::int64_t x = 0; x < in; ++x) row.values.push_back(static_cast<T>(x));
  return applied<T>(Resize{{1, out}, true, interpolation}, {}, kind, row).values;
}

TEST(Nearest, PositionIsRoundedDown) {
  const auto nearest = [](std::int64_t in, std::int64_t out) {
    return resized_row<std::uint8_t>(Interpolation::nearest, kInterpolated, in, out);
  };
  EXPECT_EQ(nearest(4, 2), (Levels{0, 2}));
  EXPECT_EQ(nearest(5, 3), (Levels{0, 1, 3}));
  EXPECT_EQ(nearest(3, 7), (Levels{0, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(nearest(9, 9), (Levels{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(Nearest, ExactTakesThePixelWithTheNearestCenter) {
  const auto exact = [](std::int64_t in, std::int64_t out) {
    return resized_row<std::uint8_t>(Interpolation::nearest_exact, kInterpolated, in, out);
  };
  EXPECT_EQ(exact(4, 2), (Levels{1, 3}));
  EXPECT_EQ(exact(5, 3), (Levels{0, 2, 4}));
  EXPECT_EQ(exact(3, 7), (Levels{0, 0, 1, 1, 1, 2, 2}));
}

TEST(Nearest, EveryPixelSizeIsCopiedWhole) {
  for_each_image_kind([](auto kind, std::int64_t channels) {
    using T = decltype(kind);
    const auto in = picture<T>(5, 6, channels);
    const auto out =
        applied<T>(Resize{{4, 9}, true, Interpolation::nearest_exact}, {}, kInterpolated, in);
    for (std::int64_t y = 0; y < 4; ++y) {
      for (std::int64_t x = 0; x < 9; ++x) {
        for (std::int64_t c = 0; c < channels; ++c) {
          EXPECT_EQ(out.at(y, x, c), in.at((2 * y + 1) * 5 / 8, (2 * x + 1) * 6 / 18, c));
        }
      }
    }
  });
}

// A mask moves like its image.
TEST(Nearest, MasksAreResizedAsNearestOnlyWithNearestImages) {
  for (const auto interpolation :
       {Interpolation::nearest_exact, Interpolation::bilinear, Interpolation::bicubic}) {
    EXPECT_EQ(resized_row<std::uint8_t>(interpolation, FieldKind::mask, 4, 2), (Levels{1, 3}));
  }
  EXPECT_EQ(resized_row<std::uint8_t>(Interpolation::nearest, FieldKind::mask, 4, 2),
            (Levels{0, 2}));
}

TEST(Interpolation, OnlyAntialiasedBilinearResizesAreDecodedOrRunAsOne) {
  for (const auto interpolation :
       {Interpolation::nearest, Interpolation::nearest_exact, Interpolation::bicubic}) {
    EXPECT_FALSE(AnyOp(Resize{{4, 4}, true, interpolation}).only_resizes());
    EXPECT_EQ((Resize{{4, 4}, true, interpolation}.reduction({{0, 0, 64, 64}, 64, 64})), 1);
    RandomResizedCrop crop{4};
    crop.interpolation = interpolation;
    EXPECT_FALSE(AnyOp(crop).only_resizes());
  }
}

TEST(Interpolation, EvaluationKeepsTheInterpolationOfACrop) {
  RandomResizedCrop crop{224};
  crop.interpolation = Interpolation::bicubic;
  const auto kept = evaluation_transforms({{"crop", crop}});
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].op.get_if<Resize>()->interpolation, Interpolation::bicubic);
}

TEST(Interpolation, RotationsAcceptOnlyNearestAndBilinear) {
  for (const auto interpolation : {Interpolation::nearest_exact, Interpolation::bicubic}) {
    EXPECT_EQ(thrown_by([&] {
                RandomRotation{{0, 1}, interpolation}.validate();
              }),
              "Refused: random_rotation: the interpolation must be nearest or bilinear");
    EXPECT_EQ(thrown_by([&] { RandomAffine{.interpolation = interpolation}.validate(); }),
              "Refused: random_affine: the interpolation must be nearest or bilinear");
  }
}

TEST(MaxSize, LimitsTheLongerSide) {
  const auto after = [](const ResizedSize& size, const Size& image) { return size.of(image); };
  ResizedSize limited = 10;
  limited.max_size = 15;
  // torchvision: int(10 * 40 / 20) = 20 is above 15, so 10 becomes int(15 * 10 / 20).
  EXPECT_EQ(after(limited, {20, 40}), Size(7, 15));
  EXPECT_EQ(after(limited, {40, 20}), Size(15, 7));
  EXPECT_EQ(after(limited, {20, 30}), Size(10, 15));
  EXPECT_EQ(after(limited, {30, 29}), Size(10, 10));
}

TEST(MaxSize, AloneSetsTheLongerSide) {
  ResizedSize size;
  size.max_size = 30;
  EXPECT_TRUE(size.keeps_ratio());
  EXPECT_EQ(size.of({20, 41}), Size(14, 30));
  EXPECT_EQ(size.of({41, 20}), Size(30, 14));
  EXPECT_EQ(size.of({20, 20}), Size(30, 30));
  EXPECT_THAT(thrown_by([&] {
                Resize{size}.draw({}, {1, 31, 3});
              }),
              HasSubstr("with a max_size of 30 it becomes 0 x 30 pixels, which is too small"));
  EXPECT_THROW(Resize{size}.draw({}, {1, 31, 3}), UnfitSample);
}

TEST(MaxSize, InvalidValuesAreRefused) {
  const auto refused = [](std::int64_t shorter, std::int64_t max_size) {
    ResizedSize size = shorter;
    size.max_size = max_size;
    return thrown_by([&] { Resize{size}.validate(); });
  };
  EXPECT_EQ(refused(10, 11), "nothing");
  EXPECT_EQ(refused(10, 10), "Refused: resize: max_size is 10; it must be above the size, 10");
  EXPECT_THAT(refused(0, 65'537), HasSubstr("max_size is 65537; it must be 1 to 65536"));
  ResizedSize both{10, 20};
  both.max_size = 30;
  EXPECT_THAT(thrown_by([&] { Resize{both}.validate(); }),
              HasSubstr("max_size is 30; it is for a size of one number"));
}

}  // namespace
}  // namespace slipstream
