#include "slipstream/transforms/containers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/augment/chain_cases.h"
#include "slipstream/transforms/adjust.h"
#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "support/own_op.h"
#include "support/pixel_functions.h"
#include "support/thrown.h"

// Tests containers in chains, with the same executors as chain_test.cpp.
namespace slipstream {
namespace {

using test::ChainCase;
using test::image_field;
using test::mask_field;
using testing::HasSubstr;
using Chain = std::vector<NamedOp>;

class ContainerTest : public testing::Test {
 protected:
  void SetUp() override { test::require_executor(); }
};

const ColorJitter kJitterOfAll{
    .brightness = {0.6, 1.4}, .contrast = {0.5, 1.5}, .saturation = {0.2, 1.8}, .hue = {-0.3, 0.4}};

/// Operations of every kind that keep images of height x width x 3.
Chain keeping_ops(std::int64_t height, std::int64_t width, DType dtype) {
  const RandomAffine affine{.degrees = {-20, 30},
                            .translate = {0.2, 0.1},
                            .interpolation = Interpolation::bilinear,
                            .fill = 1};
  RandomResizedCrop crop{{height, width}};
  RandomResizedCrop nearest = crop;
  nearest.interpolation = Interpolation::nearest;
  RandomResizedCrop plain = crop;
  plain.antialias = false;
  Chain chain = {{"crop", RandomCrop{{height, width}, 4}},
                 {"flip", RandomHorizontalFlip{}},
                 {"down", RandomVerticalFlip{}},
                 {"turn", RandomRotation{{-45, 45}}},
                 {"affine", affine},
                 {"resize", crop},
                 {"nearest", nearest},
                 {"plain", plain},
                 {"jitter", kJitterOfAll},
                 {"gray", RandomGrayscale{0.5}},
                 {"erase", RandomErasing{.p = 1, .value = 1}},
                 {"mask", RandomMask{}},
                 {"blur", GaussianBlur{5, {0.5, 2}}},
                 {"sharpen", RandomAdjustSharpness{3, 0.7}},
                 {"stretch", RandomAutocontrast{0.7}},
                 {"solarize", RandomSolarize{0.6, 0.7}}};
  if (dtype == DType::uint8) {
    chain.push_back({"equalize", RandomEqualize{0.7}});
  } else {
    chain.push_back({"normalize", Normalize{{0.5}, {0.25}}});
    chain.push_back({"mine", test::RandomCurve{}});
  }
  return chain;
}

TEST_F(ContainerTest, RandomApplyOfEachOperationMatchesHost) {
  for (const DType dtype : {DType::uint8, DType::float32}) {
    for (const NamedOp& op : keeping_ops(44, 37, dtype)) {
      const NamedOp container{"maybe", RandomApply{{op}, 0.5}};
      SCOPED_TRACE(op.name);
      ChainCase({container}, image_field(44, 37, 3, dtype), 6).check();
      ChainCase({{"first", RandomHorizontalFlip{}}, container, {"last", RandomInvert{}}},
                image_field(44, 37, 3, dtype), 4)
          .check();
    }
  }
}

TEST_F(ContainerTest, FloatValuesOfSamplesThatAreNotChangedKeepTheirBits) {
  for (const NamedOp& op : keeping_ops(24, 20, DType::float32)) {
    const NamedOp container{"never", RandomApply{{op}, 0}};
    SCOPED_TRACE(op.name);
    ChainCase({container}, image_field(24, 20, 3, DType::float32), 2, {}, 3, test::extreme_floats)
        .check();
  }
}

TEST_F(ContainerTest, RandomApplyOfAllOperationsMatchesHost) {
  for (const DType dtype : {DType::uint8, DType::float32})
    ChainCase({{"maybe", RandomApply{keeping_ops(40, 44, dtype), 0.5}}},
              image_field(40, 44, 3, dtype), 5)
        .check();
}

TEST_F(ContainerTest, RandomChoiceOfAllOperationsMatchesHost) {
  for (const DType dtype : {DType::uint8, DType::float32}) {
    const Chain ops = keeping_ops(40, 44, dtype);
    ChainCase({{"one", RandomChoice{ops}}, {"flip", RandomHorizontalFlip{}}},
              image_field(40, 44, 3, dtype), 40)
        .check();
  }
}

TEST_F(ContainerTest, ChoiceUsesItsProbabilities) {
  const Chain ops = {{"invert", RandomInvert{1}},
                     {"never", RandomPosterize{0, 1}},
                     {"flip", RandomVerticalFlip{1}}};
  const ChainCase weighted({{"one", RandomChoice{ops, {1, 0, 3}}}}, image_field(16, 12), 30);
  EXPECT_EQ(weighted.plan.launches(), 1U);
  weighted.check();
}

TEST_F(ContainerTest, ContainersInContainersMatchHost) {
  const NamedOp values{"values",
                       RandomApply{{{"jitter", kJitterOfAll}, {"invert", RandomInvert{}}}}};
  const NamedOp moves{"moves", RandomChoice{{{"turn", RandomRotation{{-90, 90}}},
                                             {"flip", RandomVerticalFlip{1}}}}};
  const NamedOp both{"both", RandomChoice{{values, moves, {"equalize", RandomEqualize{}}}}};
  ChainCase({{"maybe", RandomApply{{both, {"gray", RandomGrayscale{0.5}}}, 0.8}}},
            image_field(30, 31), 30)
      .check();
}

TEST_F(ContainerTest, MasksMoveWithTheImages) {
  const Chain ops = {{"flip", RandomHorizontalFlip{}},
                     {"jitter", kJitterOfAll},
                     {"turn", RandomRotation{{-45, 45}, Interpolation::bilinear}},
                     {"crop", RandomResizedCrop{{40, 36}}},
                     {"pad", RandomCrop{{40, 36}, 5, false, {3}}}};
  for (const NamedOp& container :
       {NamedOp{"maybe", RandomApply{ops, 0.5}}, NamedOp{"one", RandomChoice{ops}}}) {
    ChainCase({container}, mask_field(40, 36), 12).check();
    ChainCase({container, {"small", Resize{{20, 20}}}}, mask_field(40, 36), 12).check();
  }
}

TEST_F(ContainerTest, TypicalChainMatchesHost) {
  const Chain chain = {{"crop", RandomResizedCrop{{48, 40}}},
                       {"flip", RandomHorizontalFlip{}},
                       {"jitter", RandomApply{{{"jitter", kJitterOfAll}}, 0.8}},
                       {"gray", RandomGrayscale{0.2}},
                       {"blur", RandomApply{{{"blur", GaussianBlur{7, {0.1, 2}}}}, 0.5}},
                       {"solarize", RandomSolarize{128, 0.2}},
                       {"float", ToDtype{.scale = true}},
                       {"normalize", Normalize{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.4}}}};
  const ChainCase typical(chain, image_field(64, 61), 12);
  EXPECT_EQ(typical.plan.launches(), 2U);  // statistics for the contrast, and images
  typical.check();
}

struct Unknown : OwnOp {
  static constexpr std::string_view kName = "unknown";
};

TEST_F(ContainerTest, ContainersThatTheDeviceDoesNotSupportAreRefused) {
  const auto refusal = [](const NamedOp& op) {
    return thrown_by([&] { AugmentPlan(DeviceChain({op}, 0, {image_field(8, 8)}), 0); });
  };
  EXPECT_THAT(refusal({"maybe", RandomApply{{{"mine", Unknown{}}}}}),
              HasSubstr("transform 'maybe': 'unknown' cannot run on the device"));
  EXPECT_THAT(
      refusal({"one", RandomChoice{{{"a", RandomCrop{4}}, {"b", CenterCrop{{4, 4}}}}}}),
      HasSubstr("transform 'one': 'random_choice' changes the size or dtype of 'image', which the "
                "device does not support; run it on the loader's threads"));
  NamedOp nested{"flip", RandomHorizontalFlip{}};
  for (int i = 0; i < 4; ++i) nested = {"maybe", RandomApply{{nested}}};
  EXPECT_THAT(refusal(nested), HasSubstr("more than 3 containers inside of each other"));
}

}  // namespace
}  // namespace slipstream
