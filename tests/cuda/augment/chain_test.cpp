#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cuda/augment/chain_cases.h"
#include "cuda/augment/executor.h"
#include "slipstream/core/error.h"
#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "support/own_op.h"
#include "support/thrown.h"
#include "transforms/interpolation.h"

// These tests run in several programs (CMakeLists.txt): with the kernels on a GPU, and with the
// same code on the host. The correct result is that of the operations' CPU implementation, one
// after another.
namespace slipstream {
namespace {

using test::ChainCase;
using Chain = std::vector<NamedOp>;

class AugmentTest : public testing::Test {
 protected:
  void SetUp() override { test::require_executor(); }
};

FieldSpec image(std::int64_t height, std::int64_t width, std::int64_t channels = 3,
                DType dtype = DType::uint8) {
  return {"image", FieldKind::image, dtype, {height, width, channels}, 0};
}

FieldSpec mask(std::int64_t height, std::int64_t width, DType dtype = DType::uint8) {
  return {"mask", FieldKind::mask, dtype, {height, width}, 10};
}

/// The transforms of workload W2, with any input size.
Chain classification_chain(std::int64_t crop, std::int64_t size) {
  return {{"to_float", ToDtype{.scale = true}},
          {"crop", RandomCrop{crop}},
          {"resize", Resize{{size, size}, false}},
          {"rotate", RandomRotation{{-45, 45}}},
          {"blur", GaussianBlur{7, {0.1, 2.0}}},
          {"normalize", Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}}};
}

const RandomAffine kAffine{.degrees = {-20, 30},
                           .translate = {0.2, 0.1},
                           .scale = {0.7, 1.4},
                           .shear = {-10, 15, -5, 5},
                           .interpolation = Interpolation::bilinear,
                           .fill = 100};

TEST_F(AugmentTest, EmptyChainCopiesBatch) { ChainCase({}, image(5, 7), 3).check(); }

TEST_F(AugmentTest, CropsFlipsAndRotationRunInOneLaunch) {
  const Chain chain = {{"crop", RandomCrop{{20, 24}, 4}},
                       {"flip", RandomHorizontalFlip{0.5}},
                       {"turn", RandomRotation{{-90, 90}, Interpolation::nearest, 7}},
                       {"down", RandomVerticalFlip{0.5}},
                       {"center", CenterCrop{{15, 17}}}};
  for (const DType dtype : {DType::uint8, DType::float32}) {
    const ChainCase moves(chain, image(22, 30, 3, dtype), 9);
    EXPECT_EQ(moves.plan.launches(), 1U);
    moves.check();
  }
}

TEST_F(AugmentTest, RotationFillIsNormalizedOnlyByLaterSteps) {
  const Normalize normalize{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.4}};
  ChainCase(
      {{"normalize", normalize}, {"turn", RandomRotation{{30, 40}, Interpolation::nearest, 0.25}}},
      image(16, 16), 2)
      .check();
  ChainCase(
      {{"turn", RandomRotation{{30, 40}, Interpolation::nearest, 200}}, {"normalize", normalize}},
      image(16, 16), 2)
      .check();
}

TEST_F(AugmentTest, NegativeZeroFillMatchesHost) {
  for (const DType dtype : {DType::uint8, DType::float32}) {
    for (const auto way : {Interpolation::nearest, Interpolation::bilinear}) {
      ChainCase({{"turn", RandomRotation{{45, 45}, way, -0.0}}, {"divide", Divide{0.5}}},
                image(16, 12, 3, dtype), 2)
          .check();
    }
    ChainCase({{"erase", RandomErasing{.p = 1, .value = -0.0}}, {"divide", Divide{0.5}}},
              image(16, 12, 3, dtype), 2)
        .check();
  }
}

TEST_F(AugmentTest, EveryResizeMatchesHost) {
  for (const DType dtype : {DType::uint8, DType::float32}) {
    for (const bool antialias : {false, true}) {
      const FieldSpec from = image(23, 31, 3, dtype);
      for (const std::int64_t channels : {1, 2, 4}) {
        ChainCase({{"any", Resize{{17, 40}, antialias}}}, image(23, 31, channels, dtype), 2)
            .check();
      }
      ChainCase({{"up", Resize{{50, 37}, antialias}}}, from, 2).check();
      ChainCase({{"down", Resize{{7, 9}, antialias}}}, from, 2).check();
      ChainCase({{"both", Resize{{40, 9}, antialias}}}, from, 2).check();
      ChainCase({{"same", Resize{{23, 31}, antialias}}}, from, 2).check();
      RandomResizedCrop crop{{16, 20}};
      crop.antialias = antialias;
      ChainCase({{"crop", crop}}, from, 7).check();
    }
  }
}

constexpr Interpolation kOtherInterpolations[] = {
    Interpolation::nearest, Interpolation::nearest_exact, Interpolation::bicubic};

TEST_F(AugmentTest, EveryInterpolationMatchesHost) {
  for (const Interpolation interpolation : kOtherInterpolations) {
    for (const DType dtype : {DType::uint8, DType::float32}) {
      for (const bool antialias : {false, true}) {
        const auto resize = [&](const ResizedSize& size) {
          return Chain{{"resize", Resize{size, antialias, interpolation}}};
        };
        // Each case compiles a kernel, so not every size is combined with every number of channels.
        const std::int64_t channels = antialias ? 1 : 4;
        ChainCase(resize({17, 40}), image(23, 31, channels, dtype), 2).check();
        const ResizedSize sizes[] = {{50, 37}, {7, 9}, {1, 90}, 13};
        for (const ResizedSize& size : sizes) {
          ChainCase(resize(size), image(23, 31, 3, dtype), 2).check();
        }
        ChainCase(resize({5, 4}), image(2, 1, 3, dtype), 2).check();
        RandomResizedCrop crop{{16, 20}};
        crop.antialias = antialias;
        crop.interpolation = interpolation;
        ChainCase({{"crop", crop}}, image(23, 31, 3, dtype), 7).check();
      }
    }
  }
}

TEST_F(AugmentTest, InterpolationsBetweenOtherStepsMatchHost) {
  for (const Interpolation interpolation : kOtherInterpolations) {
    RandomResizedCrop crop{{40, 36}};
    crop.interpolation = interpolation;
    const Chain chain = {{"before", RandomCrop{{60, 50}, 4}},
                         {"flip", RandomHorizontalFlip{0.5}},
                         {"crop", crop},
                         {"down", RandomVerticalFlip{0.5}},
                         {"turn", RandomRotation{{-45, 45}}},
                         {"blur", GaussianBlur{7, {0.1, 2.0}}},
                         {"normalize", Normalize{{0.5}, {0.25}}},
                         {"again", Resize{{30, 70}, true, interpolation}},
                         {"erase", RandomErasing{.p = 1}}};
    ChainCase(chain, image(64, 61), 5).check();
    ChainCase(chain, image(64, 61, 3, DType::float32), 5).check();
    ChainCase({{"crop", crop}, {"again", Resize{{30, 70}, true, interpolation}}}, mask(64, 61), 5)
        .check();
  }
}

TEST_F(AugmentTest, EveryPaddingMatchesHost) {
  for (const PaddingMode mode :
       {PaddingMode::constant, PaddingMode::edge, PaddingMode::reflect, PaddingMode::symmetric}) {
    const RandomCrop crop{{30, 37}, {4, 1, 12, 9}, false, {9}, mode};
    const Pad pad{{3, 0, 5, 2}, {7}, mode};
    const RandomCrop large{{60, 45}, {}, true, {5}, mode};
    const Chain chain = {
        {"crop", crop},   {"flip", RandomHorizontalFlip{0.5}},    {"resize", Resize{{33, 31}}},
        {"pad", pad},     {"blur", GaussianBlur{5, {0.1, 2.0}}},  {"center", CenterCrop{{41, 30}}},
        {"large", large}, {"normalize", Normalize{{0.5}, {0.25}}}};
    for (const std::int64_t channels : {1, 2, 4}) {
      ChainCase({{"pad", pad}}, image(23, 31, channels), 2).check();
    }
    ChainCase(chain, image(23, 31), 5).check();
    ChainCase(chain, image(23, 31, 3, DType::float32), 5).check();
    const Chain moves = {
        {"crop", crop}, {"pad", pad}, {"center", CenterCrop{{41, 40}}}, {"large", large}};
    for (const DType dtype : {DType::uint8, DType::int32, DType::int64, DType::float32}) {
      ChainCase(moves, mask(23, 31, dtype), 5).check();
    }
  }
}

// A warm-up runs the kernels with parameters that are all 0.
TEST_F(AugmentTest, ParametersOfZeroReadOnlyPixelsOfTheImage) {
  for (const PaddingMode mode : {PaddingMode::edge, PaddingMode::reflect, PaddingMode::symmetric}) {
    const ChainCase padded({{"pad", Pad{20, {0}, mode}}}, image(32, 32, 1), 1);
    const test::Bytes zeros(padded.drawn.size());
    const test::Bytes pixels =
        test::run_plan(padded.plan, 1, padded.images, zeros, padded.expected.size());
    for (std::int32_t i = 0; i < 72; ++i) {
      const std::int32_t from = std::clamp(padded_index(mode, i, 32), 0, 31);
      const auto at = static_cast<std::size_t>(72 * i + i);
      EXPECT_EQ(pixels[at], padded.images[static_cast<std::size_t>(33 * from)]) << i;
    }
  }
}

TEST_F(AugmentTest, FillPerChannelMatchesHost) {
  const Chain chain = {{"pad", Pad{{4, 3, 2, 1}, {1, 20, 255}}},
                       {"resize", Resize{{40, 33}}},
                       {"crop", RandomCrop{{39, 40}, 5, false, {0, 128, 3}}}};
  ChainCase(chain, image(23, 31), 5).check();
  ChainCase({{"divide", Divide{0.25}},
             {"crop", RandomCrop{{39, 40}, 9, false, {0.25, -0.0, 1e30}}},
             {"normalize", Normalize{{0.5}, {0.25}}}},
            image(23, 31, 3, DType::float32), 5)
      .check();
}

TEST_F(AugmentTest, LargeBicubicReductionMatchesHost) {
  for (const DType dtype : {DType::uint8, DType::float32}) {
    ChainCase({{"small", Resize{{20, 30}, true, Interpolation::bicubic}}},
              image(301, 407, 3, dtype), 2)
        .check();
  }
}

TEST_F(AugmentTest, ShorterSideResizeMatchesHostForEqualSizes) {
  ChainCase({{"any", Resize{13}}}, image(23, 31), 2).check();
  ChainCase({{"any", Resize{40}}}, image(31, 23), 2).check();
}

TEST_F(AugmentTest, Uint8ToFloatMatchesHost) {
  for (const bool scale : {false, true})
    ChainCase({{"float", ToDtype{.scale = scale}}, {"turn", RandomRotation{{-45, 45}}}},
              image(23, 31), 2)
        .check();
}

TEST_F(AugmentTest, ToFloatOfFloatImagesKeepsValues) {
  for (const bool scale : {false, true}) {
    const NamedOp again = {"again", ToDtype{.scale = scale}};
    ChainCase({again}, image(23, 31, 3, DType::float32), 2, {}, 3, test::extreme_floats).check();
    ChainCase({{"float", ToDtype{.scale = true}}, again, {"turn", RandomRotation{{-45, 45}}}},
              image(23, 31), 2)
        .check();
  }
}

TEST_F(AugmentTest, BilinearAffineMatchesHost) {
  for (const DType dtype : {DType::uint8, DType::float32}) {
    const ChainCase turned({{"affine", kAffine}}, image(33, 21, 3, dtype), 6);
    EXPECT_EQ(turned.plan.launches(), 1U);
    turned.check();
  }
}

TEST_F(AugmentTest, BlurMatchesHostForEveryKernelSize) {
  for (const DType dtype : {DType::uint8, DType::float32}) {
    for (const std::int64_t size : {1, 3, 5, 7, 9, 31}) {
      ChainCase({{"blur", GaussianBlur{size, {0.1, 5}}}}, image(45, 37, 3, dtype), 3).check();
    }
  }
  ChainCase({{"blur", GaussianBlur{63, {1, 20}}}}, image(70, 80), 1).check();
}

TEST_F(AugmentTest, ClassificationChainRunsInOneLaunch) {
  const ChainCase chain(classification_chain(32, 64), image(64, 64), 5);
  EXPECT_EQ(chain.plan.launches(), 1U);
  chain.check();
}

TEST_F(AugmentTest, EveryImageSizeAndChannelCountMatchesHost) {
  for (std::int64_t size = 1; size <= 70; ++size) {
    const std::int64_t width = size * 27 % 70 + 1;
    const Chain chain = {{"flip", RandomHorizontalFlip{0.5}},
                         {"resize", Resize{{width, size}, false}},
                         {"turn", RandomRotation{{-180, 180}}},
                         {"blur", GaussianBlur{size > 3 && width > 3 ? 7 : 1, {0.5, 1}}}};
    ChainCase(chain, image(size, width, size % 4 + 1), static_cast<std::size_t>(size % 3 + 1))
        .check();
    ChainCase({{"float", ToDtype{.scale = true}}, {"crop", RandomCrop{1}}}, image(size, width), 2)
        .check();
  }
}

TEST_F(AugmentTest, SecondInterpolationOrBlurNeedsSeparateLaunch) {
  const ChainCase chain({{"resize", Resize{{20, 24}, false}},
                         {"affine", kAffine},
                         {"blur", GaussianBlur{5, {1, 2}}},
                         {"again", GaussianBlur{3, {1, 2}}},
                         {"flip", RandomVerticalFlip{0.5}},
                         {"small", Resize{{9, 8}}}},
                        image(30, 28), 4);
  EXPECT_EQ(chain.plan.launches(), 4U);
  chain.check();
}

const ColorJitter kJitter{
    .brightness = {0.6, 1.4}, .contrast = {0.5, 1.5}, .saturation = {0.2, 1.8}, .hue = {-0.3, 0.4}};

TEST_F(AugmentTest, ColorOperationsMatchHost) {
  for (const DType dtype : {DType::uint8, DType::float32}) {
    ChainCase({{"gray", Grayscale{3}}}, image(9, 12, 3, dtype), 2).check();
    const ChainCase gray(
        {{"gray", RandomGrayscale{0.5}}, {"color", ConvertColor{}}, {"divide", Divide{}}},
        image(19, 23, 3, dtype), 6);
    EXPECT_EQ(gray.plan.launches(), 1U);
    gray.check();
    const ChainCase jitter({{"jitter", kJitter}}, image(37, 41, 3, dtype), 12);
    EXPECT_EQ(jitter.plan.launches(), 2U);
    jitter.check();
    ColorJitter of_gray;
    of_gray.contrast[1] = of_gray.brightness[1] = 2;
    ChainCase({{"jitter", of_gray}}, image(37, 41, 1, dtype), 4).check();
  }
}

TEST_F(AugmentTest, ContrastUsesMeanOfItsInputInLongChains) {
  const ChainCase chain({{"flip", RandomHorizontalFlip{}},
                         {"first", kJitter},
                         {"crop", RandomResizedCrop{{24, 20}}},
                         {"float", ToDtype{.scale = true}},
                         {"second", kJitter},
                         {"turn", RandomRotation{{-45, 45}}},
                         {"blur", GaussianBlur{5, {1, 2}}},
                         {"third", kJitter}},
                        image(40, 44), 5);
  EXPECT_EQ(chain.plan.launches(), 5U);  // a stencil and three contrasts each need a separate pass
  chain.check();
  ChainCase({{"a", kJitter}, {"b", kJitter}, {"c", kJitter}, {"d", kJitter}, {"e", kJitter}},
            image(9, 7), 3)
      .check();
}

TEST_F(AugmentTest, DivisionOfEveryFloatMatchesHost) {
  for (const double divisor : {0.229, 3.0, 255.0, 1e-12, -7.0, 1e20}) {
    const std::vector<Chain> chains = {
        {{"divide", Divide{divisor}}},
        {{"normalize", Normalize{{0, 0.5, 1e-20}, {std::abs(divisor), 0.3, std::abs(divisor)}}}}};
    for (const Chain& chain : chains) {
      ChainCase(chain, image(64, 48, 3, DType::float32), 2, {}, 3, test::extreme_floats).check();
      ChainCase(chain, image(16, 16), 2).check();
    }
  }
  for (const std::int64_t channels : {1, 2, 3, 4})
    ChainCase({{"normalize", Normalize{{0.5}, {0.229}}}}, image(16, 16, channels), 2).check();
  // The difference of black and a tiny mean is too small for the fast division, which is exact only
  // for larger values.
  ChainCase({{"normalize", Normalize{{1e-37}, {7}}}}, image(64, 64, 1), 1).check();
}

TEST_F(AugmentTest, FlipsBeforeCropAtEdgeMatchHost) {
  ChainCase({{"down", RandomVerticalFlip{1}},
             {"across", RandomHorizontalFlip{1}},
             {"crop", RandomCrop{{9, 1}}}},
            image(9, 4), 6)
      .check();
}

TEST_F(AugmentTest, BatchSizesNotMultipleOfWordMatchHost) {
  for (std::size_t samples = 1; samples < 24; samples += 2) {
    ChainCase({{"crop", RandomCrop{{9, 4}}}}, image(9, 7), samples).check();
    ChainCase({{"crop", RandomCrop{{9, 4}}}, {"resize", Resize{{12, 12}, false}}}, image(9, 7),
              samples)
        .check();
  }
}

TEST_F(AugmentTest, ErasingAndMaskingMatchHost) {
  RandomErasing erasing{.p = 0.8, .value = 9};
  for (const DType dtype : {DType::uint8, DType::float32}) {
    const ChainCase chain({{"mask", RandomMask{0.25, true}},
                           {"erase", erasing},
                           {"turn", RandomRotation{{-45, 45}}},
                           {"again", RandomMask{0.1, false}},
                           {"erase again", erasing},
                           {"blur", GaussianBlur{3, {1, 2}}}},
                          image(45, 37, 3, dtype), 5);
    EXPECT_EQ(chain.plan.launches(), 1U);
    chain.check();
  }
  ChainCase({{"blur", GaussianBlur{3, {1, 2}}}, {"mask", RandomMask{}}}, image(21, 9), 3).check();
}

TEST_F(AugmentTest, CropMaskColorDivideChainRunsInOneLaunch) {
  // widths that need one tile, and widths that need two
  for (const std::int64_t width : {33, 64, 135, 136}) {
    const ChainCase chain({{"crop", RandomCrop{{64, width}}},
                           {"mask", RandomMask{0.25, true}},
                           {"color", ConvertColor{}},
                           {"divide", Divide{}}},
                          image(128, 140), 4);
    EXPECT_EQ(chain.plan.launches(), 1U);
    chain.check();
  }
}

TEST_F(AugmentTest, ChainOf60StepsRunsInThreeLaunches) {
  Chain chain;
  for (int i = 0; i < 60; ++i)
    chain.push_back({"flip" + std::to_string(i), RandomHorizontalFlip{0.5}});
  const ChainCase many(chain, image(9, 11), 3);
  EXPECT_EQ(many.plan.launches(), 3U) << "a launch has at most 24 steps";
  many.check();
  for (const DType dtype : {DType::uint8, DType::int32, DType::int64}) {
    const ChainCase masks(chain, mask(64, 64, dtype), 3);
    EXPECT_EQ(masks.plan.launches(), 3U);
    masks.check();
  }
}

TEST_F(AugmentTest, EveryOutputLayoutAndPrecisionMatchesHost) {
  for (const bool bf16 : {false, true}) {
    const AugmentOutput first{ImageLayout::channels_first, bf16};
    const AugmentOutput last{ImageLayout::channels_last, bf16};
    for (const std::int64_t size : {44, 45}) {
      const ChainCase in_planes(classification_chain(20, size), image(40, 40), 3, first);
      const ChainCase in_pixels(classification_chain(20, size), image(40, 40), 3, last);
      in_planes.check();
      in_pixels.check();
      for (const AugmentOutput& output : {first, last}) {
        ChainCase({{"up", Resize{{70, 2 * size}}}, {"turn", RandomRotation{{-45, 45}}}},
                  image(40, 40), 3, output)
            .check();
      }
    }
    const ChainCase without({{"float", ToDtype{.scale = true}}}, image(13, 70), 3, first);
    without.check();
  }
}

TEST_F(AugmentTest, MaskChainMatchesHostInOneLaunch) {
  const Chain chain = {{"flip", RandomHorizontalFlip{0.5}},
                       {"crop", RandomResizedCrop{{30, 28}}},
                       {"turn", RandomRotation{{-45, 45}, Interpolation::bilinear, 9}},
                       {"pad", RandomCrop{32, 4}},
                       {"float", ToDtype{.scale = true}},
                       {"blur", GaussianBlur{7, {1, 2}}},
                       {"small", Resize{{20, 50}}}};
  for (const DType dtype : {DType::uint8, DType::int32, DType::int64}) {
    const ChainCase masks(chain, mask(40, 36, dtype), 7);
    EXPECT_EQ(masks.plan.launches(), 1U);
    masks.check();
  }
}

struct Invert : OwnOp {
  static constexpr std::string_view kName = "invert";
};

TEST_F(AugmentTest, UnsupportedTransformIsRefusedByName) {
  const auto refusal = [](const Chain& chain, const FieldSpec& field) {
    return thrown_by([&] { AugmentPlan(DeviceChain(chain, 0, {field}), 0); });
  };
  EXPECT_THAT(refusal({{"mine", Invert{}}}, image(4, 4)),
              testing::HasSubstr("transform 'mine': 'invert' cannot run on the device"));
  EXPECT_THAT(refusal({{"wide", Resize{{4, 20'000}}}}, image(4, 4)),
              testing::HasSubstr("transform 'wide'"));
  EXPECT_THAT(refusal({{"crop", RandomCrop{{9, 4}}}}, image(4, 4)),
              testing::HasSubstr("transform 'crop': random_crop"));
}

}  // namespace
}  // namespace slipstream
