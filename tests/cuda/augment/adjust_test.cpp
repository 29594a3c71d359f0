#include "slipstream/transforms/adjust.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "cuda/augment/chain_cases.h"
#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"

// Tests the operations of adjust.h in chains, with the same executors as chain_test.cpp.
namespace slipstream {
namespace {

using test::ChainCase;
using test::image_field;
using Chain = std::vector<NamedOp>;

class AdjustTest : public testing::Test {
 protected:
  void SetUp() override { test::require_executor(); }
};

double threshold_for(DType dtype) { return dtype == DType::uint8 ? 100 : 0.4; }

/// All operations, each applied to half of the samples.
Chain all_adjustments(DType dtype) {
  Chain chain = {{"stretch", RandomAutocontrast{}},
                 {"invert", RandomInvert{}},
                 {"posterize", RandomPosterize{3}},
                 {"solarize", RandomSolarize{threshold_for(dtype)}},
                 {"sharpen", RandomAdjustSharpness{3}}};
  if (dtype == DType::uint8) chain.push_back({"equalize", RandomEqualize{}});
  return chain;
}

TEST_F(AdjustTest, EachOperationMatchesHostForEveryTypeAndChannelCount) {
  for (const DType dtype : {DType::uint8, DType::float32}) {
    for (const NamedOp& op : all_adjustments(dtype)) {
      for (const std::int64_t channels : {1, 2, 3, 4}) {
        ChainCase({op}, image_field(21, 70, channels, dtype), 6).check();
        ChainCase({op}, image_field(9, 16, channels, dtype), 5).check();
      }
    }
  }
}

TEST_F(AdjustTest, ImagesOfFewPixelsMatchHost) {
  for (const DType dtype : {DType::uint8, DType::float32}) {
    for (const auto& [height, width] : {std::pair{1, 1}, {1, 4}, {2, 3}, {3, 3}, {4, 2}})
      ChainCase(all_adjustments(dtype), image_field(height, width, 3, dtype), 4).check();
  }
}

TEST_F(AdjustTest, ExtremeFloatsMatchHost) {
  for (const NamedOp& op : all_adjustments(DType::float32)) {
    ChainCase({op}, image_field(31, 40, 3, DType::float32), 4, {}, 3, test::extreme_floats).check();
  }
}

TEST_F(AdjustTest, StretchOfImagesWithNanMatchesHost) {
  const auto with_nan = [](const FieldSpec& spec, std::uint32_t seed) {
    test::Bytes bytes = test::noise(spec, seed);
    auto* const values = reinterpret_cast<float*>(bytes.data());
    // The first channel has no other values.
    for (std::size_t i = 0; i < spec.shape.elements(); ++i)
      if (i % 3 == 0 || i % 7 == seed % 7) values[i] = std::numeric_limits<float>::quiet_NaN();
    return bytes;
  };
  ChainCase({{"stretch", RandomAutocontrast{1}}}, image_field(31, 40, 3, DType::float32), 4, {}, 3,
            with_nan)
      .check();
}

TEST_F(AdjustTest, DarkAndFlatImagesMatchHost) {
  const auto flat = [](const FieldSpec& spec, std::uint32_t seed) {
    return test::Bytes(spec.shape.elements(), static_cast<std::byte>(seed));
  };
  const auto dark = [](const FieldSpec& spec, std::uint32_t seed) {
    test::Bytes bytes = test::noise(spec, seed);
    for (std::byte& byte : bytes) byte = (byte & std::byte{31}) | std::byte{64};
    return bytes;
  };
  for (const NamedOp& op : all_adjustments(DType::uint8)) {
    ChainCase({op}, image_field(40, 36), 5, {}, 1, flat).check();
    ChainCase({op}, image_field(40, 36), 5, {}, 1, dark).check();
  }
}

TEST_F(AdjustTest, ValueChangesRunInOneLaunchAndStatisticsInSeparateOnes) {
  const Chain values = {
      {"invert", RandomInvert{}}, {"post", RandomPosterize{5}}, {"solarize", RandomSolarize{90}}};
  EXPECT_EQ(ChainCase(values, image_field(20, 24), 2).plan.launches(), 1U);
  EXPECT_EQ(ChainCase({{"stretch", RandomAutocontrast{}}}, image_field(9, 9), 2).plan.launches(),
            2U);
  EXPECT_EQ(ChainCase({{"equalize", RandomEqualize{}}}, image_field(9, 9), 2).plan.launches(), 3U);
  EXPECT_EQ(
      ChainCase({{"sharpen", RandomAdjustSharpness{2}}}, image_field(9, 9), 2).plan.launches(), 1U);
}

TEST_F(AdjustTest, AdjustmentsBetweenOtherStepsMatchHost) {
  const ColorJitter jitter{.brightness = {0.6, 1.4}, .contrast = {0.5, 1.5}};
  RandomResizedCrop crop{{44, 40}};
  for (const bool antialias : {false, true}) {
    crop.antialias = antialias;
    const Chain chain = {{"flip", RandomHorizontalFlip{}},
                         {"equalize", RandomEqualize{}},
                         {"crop", crop},
                         {"stretch", RandomAutocontrast{}},
                         {"turn", RandomRotation{{-45, 45}}},
                         {"again", RandomEqualize{}},
                         {"jitter", jitter},
                         {"sharpen", RandomAdjustSharpness{4}},
                         {"invert", RandomInvert{}},
                         {"float", ToDtype{.scale = true}},
                         {"in floats", RandomSolarize{0.5}},
                         {"blur", GaussianBlur{5, {0.5, 2}}},
                         {"stretch floats", RandomAutocontrast{}},
                         {"sharpen floats", RandomAdjustSharpness{0.3}},
                         {"normalize", Normalize{{0.5}, {0.25}}}};
    ChainCase(chain, image_field(64, 61), 8).check();
    ChainCase(chain, image_field(64, 61), 3, {ImageLayout::channels_first, true}).check();
  }
}

TEST_F(AdjustTest, StatisticsOfLargeImagesMatchHost) {
  for (const NamedOp& op :
       {NamedOp{"stretch", RandomAutocontrast{1}}, NamedOp{"equalize", RandomEqualize{1}},
        NamedOp{"sharpen", RandomAdjustSharpness{2, 1}}})
    ChainCase({op}, image_field(150, 211), 2).check();
  ChainCase({{"stretch", RandomAutocontrast{1}}}, image_field(150, 211, 3, DType::float32), 2)
      .check();
}

TEST_F(AdjustTest, MoreThanFourStatisticsMatchHost) {
  Chain chain;
  for (int i = 0; i < 6; ++i) {
    chain.push_back({"equalize" + std::to_string(i), RandomEqualize{}});
    chain.push_back({"solarize" + std::to_string(i), RandomSolarize{128}});
  }
  ChainCase(chain, image_field(19, 23), 5).check();
}

}  // namespace
}  // namespace slipstream
