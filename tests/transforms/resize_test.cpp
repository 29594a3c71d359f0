#include "slipstream/transforms/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <vector>

#include "slipstream/core/error.h"
#include "slipstream/transforms/op.h"
#include "support/source_folder.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using Levels = std::vector<std::uint8_t>;

// golden/make_resize.py has a copy of this generator.
Levels noisy_levels(std::size_t count) {
  std::uint32_t state = 1;
  Levels levels(count);
  for (auto& level : levels) {
    state = state * 1664525 + 1013904223;
    level = static_cast<std::uint8_t>(state >> 24);
  }
  return levels;
}

template <typename T>
ConstArray view(const std::vector<T>& values, DType dtype, const Shape& shape) {
  return {reinterpret_cast<const std::byte*>(values.data()), dtype, shape};
}

template <typename T>
std::vector<T> resized(const Resize& op, FieldKind kind, const ConstArray& in) {
  FieldSpec spec;
  spec.kind = kind;
  spec.dtype = in.dtype;
  spec.shape = in.shape;
  const FieldSpec after = op.output(spec);
  std::vector<T> out(after.shape.elements());
  Scratch scratch;
  op.apply({}, kind, in, {reinterpret_cast<std::byte*>(out.data()), after.dtype, after.shape},
           scratch);
  return out;
}

Levels resized_noise(std::int64_t height, std::int64_t width, const Resize& op) {
  const Levels in = noisy_levels(static_cast<std::size_t>(height * width * 3));
  return resized<std::uint8_t>(op, FieldKind::image, view(in, DType::uint8, {height, width, 3}));
}

struct GoldenResize {
  std::int32_t height, width, new_height, new_width;
  Levels pixels;
  Levels across_then_down;
};

std::vector<GoldenResize> goldens() {
  std::ifstream file(golden_folder() / "resize.bin", std::ios::binary);
  std::vector<GoldenResize> all;
  GoldenResize golden;
  while (file.read(reinterpret_cast<char*>(&golden.height), 16)) {
    for (Levels* levels : {&golden.pixels, &golden.across_then_down}) {
      levels->resize(static_cast<std::size_t>(golden.new_height * golden.new_width * 3));
      file.read(reinterpret_cast<char*>(levels->data()),
                static_cast<std::streamsize>(levels->size()));
    }
    all.push_back(golden);
  }
  return all;
}

MATCHER(IsWithinOneLevelOf, "") { return std::abs(std::get<0>(arg) - std::get<1>(arg)) <= 1; }

TEST(Resize, MatchesPillowGoldenImages) {
  const std::vector<GoldenResize> all = goldens();
  ASSERT_EQ(all.size(), 15u);
  for (const GoldenResize& golden : all) {
    SCOPED_TRACE(to_string(Shape{golden.height, golden.width}) + " to " +
                 to_string(Shape{golden.new_height, golden.new_width}));
    const Levels out =
        resized_noise(golden.height, golden.width, {{golden.new_height, golden.new_width}});
    EXPECT_EQ(out, golden.across_then_down);
    EXPECT_THAT(out, testing::Pointwise(IsWithinOneLevelOf(), golden.pixels));
  }
}

TEST(Resize, SameSizeKeepsTheImage) {
  EXPECT_EQ(resized_noise(9, 11, {{9, 11}}), noisy_levels(9 * 11 * 3));
}

TEST(Resize, UniformColorIsUnchanged) {
  for (const int level : {0, 1, 128, 254, 255}) {
    const Levels in(37 * 23 * 3, static_cast<std::uint8_t>(level));
    for (const Resize op : {Resize{{5, 3}}, Resize{{64, 64}}, Resize{{37, 22}}, Resize{{1, 1}}}) {
      const Levels out =
          resized<std::uint8_t>(op, FieldKind::image, view(in, DType::uint8, {37, 23, 3}));
      EXPECT_THAT(out, testing::Each(level));
    }
  }
}

TEST(Resize, LargestImageToOnePixelDoesNotOverflow) {
  const Levels white(3 * 65'536, 255);
  EXPECT_THAT(
      resized<std::uint8_t>({{1, 1}}, FieldKind::image, view(white, DType::uint8, {1, 65'536, 3})),
      testing::Each(testing::Ge(254)));
  EXPECT_THAT(
      resized<std::uint8_t>({{1, 1}}, FieldKind::image, view(white, DType::uint8, {65'536, 1, 3})),
      testing::Each(testing::Ge(254)));
}

TEST(Resize, MasksUseNearestNeighbor) {
  const Levels mask = {1, 2, 3,  //
                       4, 5, 6,  //
                       7, 8, 9};
  const ConstArray in = view(mask, DType::uint8, {3, 3});
  EXPECT_EQ(resized<std::uint8_t>({{1, 1}}, FieldKind::mask, in), (Levels{5}));
  EXPECT_EQ(resized<std::uint8_t>({{2, 2}}, FieldKind::mask, in), (Levels{1, 3, 7, 9}));
  EXPECT_EQ(resized<std::uint8_t>({{3, 3}}, FieldKind::mask, in), mask);
  EXPECT_EQ(resized<std::uint8_t>({{1, 6}}, FieldKind::mask, in), (Levels{4, 4, 5, 5, 6, 6}));
}

TEST(Resize, AcceptsMasksOfAnyDType) {
  const std::vector<std::int64_t> wide = {1, 2, std::int64_t{1} << 40, -4};
  EXPECT_EQ(resized<std::int64_t>({{1, 4}}, FieldKind::mask, view(wide, DType::int64, {2, 2})),
            (std::vector<std::int64_t>{wide[2], wide[2], -4, -4}));
  const std::vector<float> real = {0.5f, 1.5f};
  EXPECT_EQ(resized<float>({{1, 1}}, FieldKind::mask, view(real, DType::float32, {1, 2})),
            (std::vector<float>{1.5f}));
}

TEST(Resize, TouchesOnlyImagesAndMasks) {
  const Resize op{{4, 4}};
  EXPECT_TRUE(op.touches(FieldKind::image));
  EXPECT_TRUE(op.touches(FieldKind::mask));
  EXPECT_FALSE(op.touches(FieldKind::label));
  EXPECT_FALSE(op.touches(FieldKind::other));
  EXPECT_FALSE(op.is_random());
}

TEST(Resize, OutputReportsTheNewShape) {
  const FieldSpec image{"photo", FieldKind::image, DType::uint8, {-1, -1, 3}, 0};
  EXPECT_EQ(Resize({{4, 6}}).output(image).shape, Shape({4, 6, 3}));
  const FieldSpec mask{"label", FieldKind::mask, DType::int64, {-1, -1}, 10};
  EXPECT_EQ(Resize({{4, 6}}).output(mask).shape, Shape({4, 6}));
  EXPECT_EQ(Resize({{4, 6}}).output(mask).dtype, DType::int64);
  EXPECT_EQ(Resize({{4, 6}}).output(mask).classes, 10);
}

std::string thrown_message(const std::function<void()>& refused) {
  try {
    refused();
  } catch (const Refused& error) {
    return error.what();
  }
  return "nothing was refused";
}

/// Returns an image that has one channel of the given image three times.
Levels repeat_channel(const Levels& image, std::size_t channels, std::size_t channel) {
  Levels out;
  for (std::size_t i = channel; i < image.size(); i += channels) out.insert(out.end(), 3, image[i]);
  return out;
}

TEST(Resize, EveryChannelCountGivesSameResultPerChannel) {
  for (const std::int64_t channels : {1, 2, 4}) {
    const auto step = static_cast<std::size_t>(channels);
    const Levels in = noisy_levels(static_cast<std::size_t>(23 * 31 * channels));
    for (const Resize op : {Resize{{9, 12}}, Resize{{40, 50}}, Resize{{23, 12}}, Resize{{9, 31}}}) {
      const Levels out =
          resized<std::uint8_t>(op, FieldKind::image, view(in, DType::uint8, {23, 31, channels}));
      for (std::size_t c = 0; c < step; ++c) {
        const Levels color = repeat_channel(in, step, c);
        EXPECT_EQ(
            repeat_channel(out, step, c),
            resized<std::uint8_t>(op, FieldKind::image, view(color, DType::uint8, {23, 31, 3})))
            << channels << " channels, channel " << c << ", " << op.size.height << " x "
            << op.size.width;
      }
    }
  }
}

TEST(Resize, UnsupportedFieldsAreRefused) {
  const Resize op{{4, 4}};
  const auto output = [&](FieldKind kind, DType dtype, const Shape& shape) {
    return thrown_message([&] { op.output({"photo", kind, dtype, shape, 0}); });
  };
  EXPECT_THAT(output(FieldKind::image, DType::int32, {-1, -1, 3}),
              HasSubstr("image 'photo' is int32"));
  EXPECT_THAT(output(FieldKind::image, DType::uint8, {-1, -1}), HasSubstr("? x ?"));
  EXPECT_THAT(output(FieldKind::image, DType::float32, {-1, -1, 5}),
              HasSubstr("must be uint8 or float32, height x width x 1 to 4 channels"));
  EXPECT_THAT(output(FieldKind::image, DType::float32, {-1, -1, 0}), HasSubstr("1 to 4 channels"));
  EXPECT_THAT(output(FieldKind::mask, DType::uint8, {5}), HasSubstr("mask 'photo' is 5"));
}

TEST(Resize, InvalidSidesAreRefused) {
  EXPECT_NO_THROW(Resize({{1, 65'536}}).validate());
  for (const Resize op : {Resize{{0, 4}}, Resize{{4, -1}}, Resize{}, Resize{{65'537, 4}}}) {
    EXPECT_THAT(thrown_message([&] { op.validate(); }), HasSubstr("must be 1 to 65536"));
  }
}

TEST(Resize, ImageWithoutPixelsThrows) {
  Levels out(4 * 4 * 3);
  Scratch scratch;
  const MutableArray to{reinterpret_cast<std::byte*>(out.data()), DType::uint8, {4, 4, 3}};
  EXPECT_THROW(
      Resize({{4, 4}}).apply({}, FieldKind::image, {nullptr, DType::uint8, {0, 5, 3}}, to, scratch),
      Error);
}

// torchvision computes the longer side as int(size * longer / shorter).
TEST(Resize, SingleNumberSetsTheShorterSide) {
  const Resize op{7};
  const auto after = [&](FieldKind kind, const Shape& shape) {
    return op.output({"photo", kind, DType::uint8, shape, 0}).shape;
  };
  EXPECT_EQ(after(FieldKind::image, {10, 25, 3}), Shape({7, 17, 3}));
  EXPECT_EQ(after(FieldKind::image, {25, 10, 3}), Shape({17, 7, 3}));
  EXPECT_EQ(after(FieldKind::image, {9, 9, 3}), Shape({7, 7, 3}));
  EXPECT_EQ(after(FieldKind::mask, {3, 4}), Shape({7, 9}));
  EXPECT_EQ(after(FieldKind::image, {-1, -1, 3}), Shape({-1, -1, 3}));
  EXPECT_EQ(after(FieldKind::image, {-1, 9, 3}), Shape({-1, -1, 3}));
  EXPECT_EQ(resized_noise(10, 25, op), resized_noise(10, 25, Resize{{7, 17}}));
}

TEST(Resize, SingleNumberDisablesReducedDecoding) {
  const Resize op{7};
  EXPECT_FALSE(op.only_resizes());
  EXPECT_TRUE((Resize{{7, 7}}.only_resizes()));
  EXPECT_EQ(op.reduction(op.draw({}, {100, 100, 3})), 1);
  const AffineMap map = op.map(op.draw({}, {10, 25, 3}), {10, 25, 3});
  EXPECT_EQ(map.height, 7);
  EXPECT_EQ(map.width, 17);
  EXPECT_EQ(map.xx, 17 / 25.0);
}

TEST(Resize, SingleNumberWithTooLargeResultThrows) {
  for (const std::int64_t side : {-1, 65'537})
    EXPECT_THAT(thrown_by([&] { Resize{side}.validate(); }),
                HasSubstr("the shorter side must be 1 to 65536"));
  EXPECT_NO_THROW(Resize{65'536}.validate());
  const auto drawn = [](const Shape& shape) {
    return thrown_by([&] { Resize{224}.draw({}, shape); });
  };
  EXPECT_EQ(drawn({1, 292, 3}), "nothing");
  EXPECT_THAT(drawn({1, 293, 3}), HasSubstr("it becomes 224 x 65632 pixels, which is too large"));
  EXPECT_THAT(drawn({0, 293, 3}), HasSubstr("has no pixels"));
  EXPECT_THROW(Resize{224}.draw({}, {1, 293, 3}), UnfitSample);
}

TEST(Resize, AnyOpAppliesItToASample) {
  const AnyOp op = Resize{{2, 2}};
  EXPECT_EQ(op.name(), "resize");
  const std::vector<FieldSpec> specs = {{"image", FieldKind::image, DType::uint8, {-1, -1, 3}, 0},
                                        {"class", FieldKind::label, DType::int64, {}, 10}};
  Sample sample;
  sample.fields.resize(2);
  sample.fields[0].array.assign(view(noisy_levels(48), DType::uint8, {4, 4, 3}));
  sample.fields[1].array.reset(DType::int64, {}).as<std::int64_t>()[0] = 7;
  std::vector<HostArray> spare(2);
  Scratch scratch;
  op.apply({}, specs, sample, spare, scratch);
  EXPECT_EQ(sample.fields[0].array.view().shape, Shape({2, 2, 3}));
  EXPECT_EQ(sample.fields[1].array.view().as<std::int64_t>()[0], 7);
}

}  // namespace
}  // namespace slipstream
