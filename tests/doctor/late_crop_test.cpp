#include "doctor/late_crop.h"

#include <gtest/gtest.h>

#include <vector>

#include "slipstream/transforms/adjust.h"
#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"

namespace slipstream::test {
namespace {

using Chain = std::vector<std::optional<AnyOp>>;

/// The crop leaves a tenth of the bytes; all steps before it keep them all.
std::optional<LateCrop> find_late_crop_at(const Chain& chain, std::size_t crop) {
  std::vector<double> bytes(chain.size() + 1, 100);
  for (std::size_t i = crop + 1; i < bytes.size(); ++i) bytes[i] = 10;
  return find_late_crop(chain, bytes);
}

void expect_late(const Chain& chain, std::size_t crop, std::size_t moved_before) {
  const auto late = find_late_crop_at(chain, crop);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->crop, crop);
  EXPECT_EQ(late->moved_before, moved_before);
}

TEST(LateCrop, CropMovesBeforePixelwiseTransforms) {
  expect_late({Normalize{}, RandomCrop{8}}, 1, 0);
  expect_late({ToDtype{}, Divide{}, ConvertColor{}, CenterCrop{8}, Normalize{}}, 3, 0);
  expect_late(
      {Grayscale{3}, RandomGrayscale{}, ColorJitter{.brightness = {0.5, 1.5}}, CenterCrop{8}}, 3,
      0);
  expect_late({RandomInvert{}, RandomPosterize{}, RandomSolarize{}, CenterCrop{8}}, 3, 0);
}

TEST(LateCrop, CropDoesNotMoveBeforeTransformsThatReadOtherPixels) {
  const std::vector<AnyOp> before = {
      Resize{{64, 64}}, GaussianBlur{},         RandomRotation{{-10, 10}},
      RandomAffine{},   RandomHorizontalFlip{}, ColorJitter{.contrast = {0.5, 1.5}},
      RandomEqualize{}, RandomAutocontrast{},   RandomAdjustSharpness{2}};
  for (const AnyOp& op : before) {
    EXPECT_FALSE(find_late_crop_at({op, RandomCrop{8}}, 1)) << op.name();
    expect_late({op, Normalize{}, RandomCrop{8}}, 2, 1);
  }
  EXPECT_FALSE(find_late_crop_at({std::nullopt, CenterCrop{8}}, 1)) << "the transform is unknown";
}

TEST(LateCrop, OnlyCropsWithoutPaddingAreMoved) {
  EXPECT_FALSE(find_late_crop_at({Normalize{}, Resize{{8, 8}}}, 1));
  EXPECT_FALSE(find_late_crop_at({Normalize{}, RandomResizedCrop{8}}, 1));
  EXPECT_FALSE(find_late_crop_at({Normalize{}, RandomCrop{8, 2}}, 1)) << "its padding is black";
  EXPECT_FALSE(find_late_crop_at({Normalize{}, RandomCrop{8, 0, true}}, 1));
  EXPECT_FALSE(find_late_crop_at({Normalize{}, std::nullopt}, 1));
}

TEST(LateCrop, CropIsMovedOnlyIfItHalvesTheBytes) {
  const Chain chain = {Normalize{}, CenterCrop{8}};
  EXPECT_FALSE(find_late_crop(chain, std::vector<double>{100, 100, 51}));
  EXPECT_TRUE(find_late_crop(chain, std::vector<double>{100, 100, 50}));
  EXPECT_FALSE(find_late_crop(chain, std::vector<double>{100, 0, 50})) << "not measured";
  EXPECT_FALSE(find_late_crop(chain, std::vector<double>{100, 100}))
      << "the other transforms do not run on the loader";
}

}  // namespace
}  // namespace slipstream::test
