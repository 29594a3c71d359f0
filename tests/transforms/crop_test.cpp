#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "support/thrown.h"
#include "transforms/device_chain.h"
#include "transforms/op_runner.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

/// Compares every pixel of `out` with the one of `in` to which the crop maps it, or with 0 outside
/// of `in`.
template <typename T>
void expect_crop(const Pixels<T>& out, const Pixels<T>& in, const Region& region) {
  const std::int64_t channels = in.shape.rank == 3 ? in.shape[2] : 1;
  ASSERT_EQ(out.shape[0], region.height);
  ASSERT_EQ(out.shape[1], region.width);
  for (std::int64_t y = 0; y < region.height; ++y) {
    for (std::int64_t x = 0; x < region.width; ++x) {
      const std::int64_t from_y = y + region.top;
      const std::int64_t from_x = x + region.left;
      const bool is_inside =
          from_y >= 0 && from_y < in.shape[0] && from_x >= 0 && from_x < in.shape[1];
      for (std::int64_t c = 0; c < channels; ++c) {
        ASSERT_EQ(out.at(y, x, c), is_inside ? in.at(from_y, from_x, c) : T{0}) << y << " " << x;
      }
    }
  }
}

TEST(CenterCrop, CropsTheCenter) {
  const CenterCrop op{{4, 3}};
  const auto image = counted_image(9, 8);
  const DrawnCrop drawn = op.draw({}, image.shape);
  EXPECT_EQ(drawn.region, (Region{2, 2, 4, 3}));
  expect_crop(applied<std::uint8_t>(op, drawn, FieldKind::image, image), image, drawn.region);
  EXPECT_FALSE(op.is_random());
}

TEST(CenterCrop, OffsetIsRoundedToEvenAsInTorchvision) {
  // torchvision: int(round((image_height - crop_height) / 2.0)), where Python rounds ties to even.
  const auto offset = [](std::int64_t side, std::int64_t part) {
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(side - part) / 2.0));
  };
  for (std::int64_t side = 1; side <= 130; ++side) {
    for (std::int64_t part = 1; part <= side; ++part) {
      const std::int64_t other = 3 * side + 1;
      const DrawnCrop drawn = CenterCrop{{part, side}}.draw({}, {side, other, 3});
      ASSERT_EQ(drawn.region, (Region{offset(side, part), offset(other, side), part, side}))
          << side << " " << part;
    }
  }
  EXPECT_EQ(CenterCrop{224}.draw({}, {256, 341, 3}).region, (Region{16, 58, 224, 224}));
  EXPECT_EQ(CenterCrop{224}.draw({}, {225, 227, 3}).region, (Region{0, 2, 224, 224}));
}

TEST(Crops, AcceptImagesAndMasksOfAnyDType) {
  const CenterCrop op{{2, 5}};
  const DrawnCrop drawn = op.draw({}, {5, 7, 3});
  const auto wide = counted<std::int64_t>(DType::int64, {5, 7});
  expect_crop(applied<std::int64_t>(op, drawn, FieldKind::mask, wide), wide, drawn.region);
  const auto real = counted<float>(DType::float32, {5, 7, 2});
  expect_crop(applied<float>(op, drawn, FieldKind::image, real), real, drawn.region);
}

TEST(RandomCrop, CropsImagesAndMasksAlike) {
  const RandomCrop op{{6, 4}, 3};
  const auto image = counted_image(8, 9);
  const auto mask = counted<std::uint8_t>(DType::uint8, {8, 9});
  for (std::uint64_t sample = 0; sample < 200; ++sample) {
    const DrawnCrop drawn = op.draw(make_key(sample), image.shape);
    expect_crop(applied<std::uint8_t>(op, drawn, FieldKind::image, image), image, drawn.region);
    expect_crop(applied<std::uint8_t>(op, drawn, FieldKind::mask, mask), mask, drawn.region);
  }
}

TEST(RandomCrop, SamplesEveryPossiblePosition) {
  const RandomCrop op{{6, 4}, 1};
  std::set<std::pair<std::int64_t, std::int64_t>> places;
  for (std::uint64_t sample = 0; sample < 2000; ++sample) {
    const Region region = op.draw(make_key(sample), {7, 5, 3}).region;
    EXPECT_EQ(region.height, 6);
    EXPECT_EQ(region.width, 4);
    places.emplace(region.top, region.left);
  }
  EXPECT_EQ(places.size(), 16u);
  EXPECT_EQ(*places.begin(), std::pair(std::int64_t{-1}, std::int64_t{-1}));
  EXPECT_EQ(*places.rbegin(), std::pair(std::int64_t{2}, std::int64_t{2}));
}

TEST(RandomCrop, SamplesTopThenLeft) {
  const RandomKey key = make_key(11);
  RandomStream stream(key);
  const std::int64_t top = stream.below(100 - 30 + 1);
  const std::int64_t left = stream.below(200 - 20 + 1);
  EXPECT_EQ(RandomCrop({{30, 20}}).draw(key, {100, 200, 3}).region, (Region{top, left, 30, 20}));
}

TEST(RandomCrop, PaddedCropMayBeLargerThanTheImage) {
  const RandomCrop op{8, 2};
  const auto image = counted_image(4, 5);
  for (std::uint64_t sample = 0; sample < 20; ++sample) {
    const DrawnCrop drawn = op.draw(make_key(sample), image.shape);
    expect_crop(applied<std::uint8_t>(op, drawn, FieldKind::image, image), image, drawn.region);
  }
}

/// Returns the part of `image` in `window`, in which all pixels outside of `read` are overwritten.
Pixels<std::uint8_t> held_by(const Region& window, const Region& read,
                             const Pixels<std::uint8_t>& image) {
  Pixels<std::uint8_t> held{DType::uint8, {window.height, window.width, 3}, {}};
  for (std::int64_t i = 0; i < window.height * window.width * 3; ++i) {
    const std::int64_t y = window.top + i / 3 / window.width;
    const std::int64_t x = window.left + i / 3 % window.width;
    const bool is_read =
        y >= read.top && y < read.top + read.height && x >= read.left && x < read.left + read.width;
    held.values.push_back(is_read ? image.at(y, x, i % 3) : 99);
  }
  return held;
}

// Checks that `op` reads only its region. Decoding part of an image depends on that.
template <typename Op>
void expect_same_from_region(const Op& op, const Pixels<std::uint8_t>& image) {
  for (std::uint64_t sample = 0; sample < 100; ++sample) {
    const DrawnCrop drawn = op.draw(make_key(sample), image.shape);
    const Region part = op.region(drawn);
    const auto whole = applied<std::uint8_t>(op, drawn, FieldKind::image, image);
    const Region wide = {part.top / 2, part.left / 3, image.shape[0] - part.top / 2,
                         part.left + part.width - part.left / 3};
    for (const Region& window : {part, wide}) {
      const auto held = held_by(window, part, image);
      ASSERT_EQ(applied<std::uint8_t>(op, op.within(drawn, {window}), FieldKind::image, held),
                whole)
          << sample;
    }
  }
}

TEST(Crops, ReadNoPixelsOutsideTheirRegion) {
  const auto image = counted_image(40, 50);
  expect_same_from_region(CenterCrop{{13, 20}}, image);
  expect_same_from_region(RandomCrop{{13, 20}}, image);
  expect_same_from_region(RandomCrop{{35, 48}, 9}, image);
  for (const PaddingMode mode : {PaddingMode::edge, PaddingMode::reflect, PaddingMode::symmetric}) {
    RandomCrop op{{35, 48}, 9};
    op.padding_mode = mode;
    expect_same_from_region(op, image);
  }
  expect_same_from_region(RandomResizedCrop{16}, image);
}

TEST(Crops, RegionIsClippedToTheImage) {
  const RandomCrop op{2, 1};
  const DrawnCrop drawn{{-1, 3, 2, 2}, 4, 4};
  EXPECT_EQ(op.region(drawn), (Region{0, 3, 1, 1}));
  EXPECT_EQ(op.within(drawn, {op.region(drawn)}).region, (Region{-1, 0, 2, 2}));
}

TEST(Crops, ImagesSmallerThanTheCropAreRefusedOrThrow) {
  const auto message = [](const auto& op, const Shape& shape) {
    return thrown_by([&] { op.draw({}, shape); });
  };
  EXPECT_EQ(message(RandomCrop{4}, {3, 9, 3}),
            "Error: random_crop: the image is 3 x 9 pixels, smaller than 4 x 4; put resize "
            "before it");
  EXPECT_THAT(message(CenterCrop{4}, {0, 3, 3}), HasSubstr("Error: center_crop: the image"));
  EXPECT_EQ(message(RandomCrop{4, 1}, {2, 2, 3}), "nothing");
  EXPECT_THAT(message(RandomCrop{4, 1}, {1, 9, 3}), HasSubstr("smaller than 2 x 2"));
  EXPECT_THAT(message(RandomCrop{4, 3}, {0, 9, 3}), HasSubstr("smaller than 1 x 1"));
  const auto declared = [](const auto& op, const Shape& shape) {
    return thrown_by([&] { op.output(make_spec(FieldKind::image, DType::uint8, shape)); });
  };
  EXPECT_THAT(
      declared(RandomCrop{4}, {3, 9, 3}),
      HasSubstr("Refused: random_crop: image 'photo' is 3 x 9 x 3, smaller than the crop of "
                "4 x 4; put resize before it"));
  EXPECT_EQ(declared(CenterCrop{4}, {3, 9, 3}), "nothing");
  EXPECT_THAT(declared(RandomCrop{4}, {-1, 3, 3}), HasSubstr("? x 3 x 3, smaller"));
  EXPECT_EQ(declared(RandomCrop{4, 1}, {2, -1, 3}), "nothing");
  EXPECT_THAT(declared(CenterCrop{4}, {-1, -1}), HasSubstr("it must be height x width x chan"));
}

TEST(Crops, FieldsOfAnotherSizeThrow) {
  const DrawnCrop drawn = CenterCrop{2}.draw({}, {6, 6, 3});
  const auto mask = counted<std::uint8_t>(DType::uint8, {5, 6});
  EXPECT_EQ(thrown_by([&] { applied<std::uint8_t>(CenterCrop{2}, drawn, FieldKind::mask, mask); }),
            "Error: center_crop: a field is 5 x 6 pixels, but the sample's first image is 6 x 6; "
            "make them the same size");
  EXPECT_THAT(
      thrown_by([&] { applied<std::uint8_t>(RandomResizedCrop{2}, drawn, FieldKind::mask, mask); }),
      HasSubstr("Error: random_resized_crop: a field is 5 x 6"));
}

TEST(Crops, InvalidParametersAreRefused) {
  const auto refused = [](const auto& op) { return thrown_by([&] { op.validate(); }); };
  EXPECT_EQ(refused(CenterCrop{{1, 65'536}}), "nothing");
  EXPECT_THAT(refused(CenterCrop{{0, 3}}), HasSubstr("Refused: center_crop to 0 x 3"));
  EXPECT_THAT(refused(RandomCrop{{3, 65'537}}), HasSubstr("must be 1 to 65536"));
  EXPECT_EQ(refused(RandomCrop{{4, 8}, 30}), "nothing");
  EXPECT_THAT(refused(RandomCrop{{4, 8}, -1}), HasSubstr("the padding is -1"));
}

TEST(Crops, DeclaredFieldsOfDifferentSizesAreRefused) {
  const FieldSpec photo = make_spec(FieldKind::image, DType::uint8, {6, 6, 3});
  const auto refusal = [&](const AnyOp& op, const Shape& of_mask) {
    const std::vector<FieldSpec> fields = {photo,
                                           {"mask", FieldKind::mask, DType::uint8, of_mask, 9}};
    return thrown_by([&] { fields_after(op, fields); });
  };
  const std::vector<AnyOp> drawn = {CenterCrop{2}, RandomCrop{2}, RandomResizedCrop{2},
                                    RandomRotation{{0, 45}}, RandomAffine{}};
  for (const AnyOp& op : drawn) {
    EXPECT_EQ(refusal(op, {5, 6}), "Refused: " + std::string(op.name()) +
                                       ": field 'mask' is 5 x 6 pixels, but 'photo' is 6 x 6; make "
                                       "them the same size");
    EXPECT_EQ(refusal(op, {6, 6}), "nothing");
    EXPECT_EQ(refusal(op, {-1, -1}), "nothing") << "known only when they are read";
  }
  for (const AnyOp& op : {AnyOp(RandomHorizontalFlip{}), AnyOp(Resize{{2, 2}})}) {
    EXPECT_EQ(refusal(op, {5, 6}), "nothing");
  }
  FieldSpec small = photo;
  small.shape = {4, 6, 3};
  EXPECT_THAT(thrown_by([&] {
                fields_after(RandomErasing{}, {photo, small});
              }),
              HasSubstr("is 4 x 6 pixels, but 'photo' is 6 x 6"));
  EXPECT_THAT(thrown_by([&] {
                DeviceChain({{"part", RandomCrop{2}}}, 0, {photo, small});
              }),
              HasSubstr("transform 'part': random_crop: field 'photo' is 4 x 6 pixels"));
}

}  // namespace
}  // namespace slipstream
