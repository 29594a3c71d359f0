#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/augment/chain_cases.h"
#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "support/pixel_functions.h"
#include "support/thrown.h"

// Tests pixel functions in chains, with the same executors as chain_test.cpp.
namespace slipstream {
namespace {

using test::ChainCase;
using Chain = std::vector<NamedOp>;

class FunctionTest : public testing::Test {
 protected:
  void SetUp() override { test::require_executor(); }
};

FieldSpec image_spec(std::int64_t height, std::int64_t width, std::int64_t channels = 3,
                     DType dtype = DType::uint8) {
  return {"image", FieldKind::image, dtype, {height, width, channels}, 0};
}

const Normalize kNormalize{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.4}};
const PixelOp kSolarize{test::Solarize{0.4F}};
const PixelOp kLookupTable{test::kTable};

TEST_F(FunctionTest, SingleFunctionMatchesHostForEveryTypeAndChannelCount) {
  for (const DType dtype : {DType::uint8, DType::float32}) {
    for (const std::int64_t channels : {1, 2, 3, 4}) {
      const ChainCase alone({{"mine", kSolarize}}, image_spec(21, 70, channels, dtype), 3);
      EXPECT_EQ(alone.plan.launches(), 1U);
      alone.check();
      ChainCase({{"mine", PixelOp{test::Softened{}}}}, image_spec(9, 16, channels, dtype), 2)
          .check();
      ChainCase({{"mine", kLookupTable}}, image_spec(8, 12, channels, dtype), 2).check();
      ChainCase({{"mine", test::RandomCurve{}}}, image_spec(8, 13, channels, dtype), 3).check();
    }
    ChainCase({{"mine", test::RandomSwap{}}}, image_spec(18, 33, 3, dtype), 6).check();
  }
  ChainCase({{"mine", kSolarize}}, image_spec(64, 48, 3, DType::float32), 2, {}, 3,
            test::extreme_floats)
      .check();
}

TEST_F(FunctionTest, EverySampleUsesItsOwnRandomParameters) {
  const Chain chain = {{"first", test::RandomSolarize{}},
                       {"curve", test::RandomCurve{}},
                       {"fixed", kSolarize},
                       {"swap", test::RandomSwap{}}};
  const ChainCase drawn(chain, image_spec(20, 24), 9);
  EXPECT_EQ(drawn.plan.launches(), 1U);
  drawn.check();
}

TEST_F(FunctionTest, FunctionMatchesHostAtEveryPositionInChain) {
  const NamedOp mine = {"mine", test::RandomCurve{}};
  const std::vector<Chain> chains = {
      {{"crop", RandomCrop{{20, 24}, 4}}, {"flip", RandomHorizontalFlip{0.5}}, mine},
      {mine, {"crop", RandomCrop{{20, 24}}}, {"flip", RandomHorizontalFlip{0.5}}},
      {mine, {"resize", Resize{{17, 40}}}},
      {{"resize", Resize{{17, 40}}}, mine},
      {{"resize", Resize{{40, 17}, false}}, mine, {"turn", RandomRotation{{-45, 45}}}},
      {{"crop", RandomResizedCrop{{16, 20}}}, mine, {"normalize", kNormalize}},
      {{"affine", RandomAffine{.degrees = {0, 40}, .interpolation = Interpolation::bilinear}},
       mine},
      {mine, {"turn", RandomRotation{{-45, 45}, Interpolation::nearest, 7}}},
      {{"turn", RandomRotation{{-45, 45}, Interpolation::nearest, 1}}, mine},
      {mine, {"blur", GaussianBlur{7, {0.5, 2}}}},
      {{"blur", GaussianBlur{5, {0.5, 2}}}, mine, {"normalize", kNormalize}},
      {{"normalize", kNormalize}, mine, {"divide", Divide{3}}},
      {{"erase", RandomErasing{.p = 0.8}}, mine, {"mask", RandomMask{}}, {"by", kLookupTable}},
      {{"resize", Resize{{30, 28}}}, mine, {"again", Resize{{9, 8}}}, {"last", kSolarize}}};
  for (const DType dtype : {DType::uint8, DType::float32}) {
    for (const Chain& chain : chains) ChainCase(chain, image_spec(31, 28, 3, dtype), 3).check();
  }
}

TEST_F(FunctionTest, ContrastUsesMeanOfFunctionOutput) {
  const ColorJitter jitter{.contrast = {0.4, 0.6}, .saturation = {1, 1.5}};
  ChainCase({{"mine", test::RandomCurve{}}, {"jitter", jitter}}, image_spec(37, 41), 4).check();
  const ChainCase both({{"resize", Resize{{40, 36}}},
                        {"mine", kSolarize},
                        {"jitter", jitter},
                        {"flip", RandomHorizontalFlip{}},
                        {"swap", test::RandomSwap{}},
                        {"again", jitter}},
                       image_spec(31, 70), 4);
  EXPECT_EQ(both.plan.launches(), 3U);
  both.check();
}

TEST_F(FunctionTest, FunctionsWithClashingNamesMatchHost) {
  ChainCase(test::clashing_chain(), image_spec(12, 11), 2).check();
}

TEST_F(FunctionTest, MathFunctionsMatchHost) {
  ChainCase({{"mine", PixelOp{test::Mathematical{}}}}, image_spec(32, 40), 2).check();
}

TEST_F(FunctionTest, DivisionAfterFunctionMatchesHost) {
  for (const float by : {1e-43F, 1e38F}) {
    ChainCase({{"mine", PixelOp{test::Multiplied{by}}}, {"divide", Divide{0.229}}},
              image_spec(32, 40), 2)
        .check();
  }
}

TEST_F(FunctionTest, Bfloat16OutputInEveryLayoutMatchesHost) {
  for (const ImageLayout layout : {ImageLayout::channels_first, ImageLayout::channels_last}) {
    ChainCase({{"mine", kSolarize}}, image_spec(13, 36), 2, {layout, true}).check();
  }
}

}  // namespace
}  // namespace slipstream
