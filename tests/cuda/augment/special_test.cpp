#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/augment/kernels.h"
#include "cuda/augment/plan.h"
#include "slipstream/core/error.h"
#include "slipstream/transforms/adjust.h"
#include "slipstream/transforms/auto_augment.h"
#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/containers.h"
#include "slipstream/transforms/masking.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "support/pixel_functions.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using Chain = std::vector<NamedOp>;

constexpr augment::DeviceLimits kLimits = {227 << 10, 228 << 10};

AugmentPlan build_plan(const Chain& operations, AugmentOutput output = {},
                       std::int64_t channels = 3) {
  const FieldSpec field{"image", FieldKind::image, DType::uint8, {96, 80, channels}, 0};
  return {DeviceChain(operations, 0, {field}), 0, output};
}

/// Returns the code of the chain's first pass, compiled for sm_90.
std::string generate_code(const AugmentPlan& plan) {
  const auto purpose = augment::purpose_of_images(plan.program(), 0, kLimits);
  return augment::compiled(augment::special_source(purpose), "sm_90");
}

/// Returns the code that collects the statistics that step `at` needs.
std::string generate_statistics_code(const AugmentPlan& plan, std::int32_t at) {
  const auto purpose = augment::purpose_of_statistics(plan.program(), 0, at, kLimits);
  return augment::compiled(augment::special_source(purpose), "sm_90");
}

TEST(SpecialKernelTest, KernelForEveryChainCompiles) {
  const Normalize normalize{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.4}};
  const std::vector<Chain> chains = {
      {{"float", ToDtype{.scale = true}},
       {"resize", Resize{{64, 64}, false}},
       {"turn", RandomRotation{{-45, 45}}},
       {"blur", GaussianBlur{7, {0.1, 2}}},
       {"normalize", normalize}},
      {{"crop", RandomResizedCrop{{48, 40}}},
       {"flip", RandomHorizontalFlip{}},
       {"normalize", normalize}},
      {{"affine", RandomAffine{.interpolation = Interpolation::bilinear}},
       {"blur", GaussianBlur{31, {1, 2}}}},
      {{"crop", RandomCrop{64, 4}}, {"mask", RandomMask{}}, {"gray", RandomGrayscale{0.5}}},
      {{"jitter", ColorJitter{.saturation = {0.5, 1}, .hue = {0, 0.1}}}, {"divide", Divide{}}}};
  for (const Chain& chain : chains) {
    const AugmentPlan plan = build_plan(chain, {ImageLayout::channels_first, true});
    EXPECT_EQ(generate_code(plan).substr(1, 3), "ELF");
  }
}

TEST(LaunchShapeTest, BlurFitsSharedMemoryOrIsRefused) {
  for (const augment::DeviceLimits limits :
       {kLimits, augment::DeviceLimits{101'376, 102'400}, augment::DeviceLimits{65'536, 65'536}}) {
    for (std::int64_t size = 1; size <= 63; size += 2) {
      for (std::int64_t channels = 1; channels <= 4; ++channels) {
        const AugmentPlan plan = build_plan({{"blur", GaussianBlur{size, {1, 2}}}}, {}, channels);
        std::string error;
        try {
          const auto shape = augment::purpose_of_images(plan.program(), 0, limits).shape;
          EXPECT_LE(shape.shared_bytes, limits.block_bytes) << size << " " << channels;
        } catch (const Refused& refused) {
          error = refused.what();
          EXPECT_THAT(error, testing::HasSubstr("blur on the loader's threads"));
          EXPECT_GE(size, 41) << channels;
        }
        if (limits.block_bytes >= kLimits.block_bytes || (size <= 51 && channels <= 3)) {
          EXPECT_EQ(limits.block_bytes > 100'000 ? error : "", "") << size << " " << channels;
        }
      }
    }
  }
}

TEST(SpecialKernelTest, StatisticsKernelOfEveryContrastCompiles) {
  const ColorJitter jitter{.contrast = {0.5, 1}, .hue = {0, 0.1}};
  const AugmentPlan plan = build_plan({{"first", jitter},
                                       {"crop", RandomResizedCrop{{48, 40}}},
                                       {"second", jitter},
                                       {"turn", RandomRotation{{-45, 45}}},
                                       {"mine", PixelOp{test::Solarize{0.5F}}},
                                       {"third", jitter},
                                       {"blur", GaussianBlur{7, {0.1, 2}}}});
  for (const std::int32_t at : {0, 2, 5})
    EXPECT_EQ(generate_statistics_code(plan, at).substr(1, 3), "ELF");
}

TEST(SpecialKernelTest, KernelsOfAdjustmentsCompile) {
  const Chain chain = {{"stretch", RandomAutocontrast{}}, {"equalize", RandomEqualize{}},
                       {"invert", RandomInvert{}},        {"posterize", RandomPosterize{3}},
                       {"solarize", RandomSolarize{100}}, {"sharpen", RandomAdjustSharpness{2}},
                       {"again", RandomInvert{}}};
  for (const std::int64_t channels : {1, 3}) {
    const AugmentPlan plan = build_plan(chain, {}, channels);
    EXPECT_EQ(generate_code(plan).substr(1, 3), "ELF");
    for (const std::int32_t at : {0, 1})
      EXPECT_EQ(generate_statistics_code(plan, at).substr(1, 3), "ELF");
  }
}

TEST(SpecialKernelTest, OnlyKernelsWithSwitchedStepsHaveCodeForSwitches) {
  const auto source = [](const Chain& chain) {
    const AugmentPlan plan = build_plan(chain);
    return augment::special_source(augment::purpose_of_images(plan.program(), 0, kLimits));
  };
  const std::string without = "#define SLIPSTREAM_UNSWITCHED";
  EXPECT_THAT(source({{"flip", RandomHorizontalFlip{}}}), testing::HasSubstr(without));
  EXPECT_THAT(source({{"invert", RandomInvert{}}}), testing::Not(testing::HasSubstr(without)));
  // The steps before the first statistics have no switches, but the measured step has.
  const AugmentPlan plan = build_plan({{"stretch", RandomAutocontrast{}}});
  EXPECT_THAT(
      augment::special_source(augment::purpose_of_statistics(plan.program(), 0, 0, kLimits)),
      testing::Not(testing::HasSubstr(without)));
}

TEST(SpecialKernelTest, KernelsOfContainersCompile) {
  const Chain moves = {{"flip", RandomHorizontalFlip{}},
                       {"turn", RandomRotation{{-45, 45}, Interpolation::bilinear}},
                       {"stretch", RandomAutocontrast{}}};
  const AugmentPlan plan = build_plan(
      {{"maybe", RandomApply{moves}},
       {"one", RandomChoice{{{"gray", RandomGrayscale{}}, {"blur", GaussianBlur{7, {0.1, 2}}}}}}});
  EXPECT_EQ(generate_code(plan).substr(1, 3), "ELF");
  EXPECT_EQ(generate_statistics_code(plan, 2).substr(1, 3), "ELF");
}

TEST(SpecialKernelTest, KernelsOfAugmentationsCompile) {
  for (const auto way : {Interpolation::nearest, Interpolation::bilinear}) {
    const std::int64_t channels = way == Interpolation::nearest ? 1 : 3;
    const AugmentPlan plan =
        build_plan({{"rand", RandAugment{.interpolation = way}}}, {}, channels);
    EXPECT_EQ(generate_code(plan).substr(1, 3), "ELF");
    EXPECT_EQ(generate_statistics_code(plan, 1).substr(1, 3), "ELF");
  }
}

TEST(SpecialKernelTest, UserFunctionsCompile) {
  const AugmentPlan plan = build_plan({{"solarize", PixelOp{test::Solarize{0.5F}}},
                                       {"resize", Resize{{64, 64}}},
                                       {"curve", test::RandomCurve{}},
                                       {"looked", PixelOp{test::kTable}},
                                       {"blur", GaussianBlur{7, {0.1, 2}}},
                                       {"swap", test::RandomSwap{}},
                                       {"soft", PixelOp{test::Softened{}}}});
  EXPECT_EQ(generate_code(plan).substr(1, 3), "ELF");
  EXPECT_EQ(generate_code(build_plan(test::clashing_chain())).substr(1, 3), "ELF");
  EXPECT_EQ(generate_code(build_plan({{"mine", PixelOp{test::Mathematical{}}}})).substr(1, 3),
            "ELF");
  for (const std::int64_t channels : {1, 2, 4}) {
    EXPECT_EQ(
        generate_code(build_plan({{"soft", PixelOp{test::Softened{}}}}, {}, channels)).substr(1, 3),
        "ELF");
  }
}

float on_the_cpu_alone(float value) { return value; }
SLIPSTREAM_PIXEL_FUNCTION(Hosted, {
  float operator()(float value) const { return on_the_cpu_alone(value);
}  // namespace
}  // namespace slipstream
);

TEST(SpecialKernelTest, FunctionThatDoesNotCompileIsNamedInPlanError) {
  EXPECT_THAT(thrown_by([] {
                build_plan({{"mine", PixelOp{Hosted{}}}});
              }),
              testing::AllOf(testing::HasSubstr("Error: transform 'mine': "),
                             testing::HasSubstr("'Hosted' does not compile for the device"),
                             testing::HasSubstr("Hosted(1): error"),
                             testing::HasSubstr("\"on_the_cpu_alone\" is undefined")));
}

/// A function whose device text declares a larger struct than the host.
struct Outgrown {
  float operator()(float value) const { return value; }
};
constexpr PixelFunctionText pixel_function_text(const Outgrown*) {
  return {"Outgrown",
          "struct Outgrown { double wide; float operator()(float v) const { return v; } };"};
}

TEST(SpecialKernelTest, FunctionWithDifferentDeviceLayoutIsRefused) {
  EXPECT_THAT(thrown_by([] {
                build_plan({{"mine", PixelOp{Outgrown{}}}});
              }),
              testing::HasSubstr("Outgrown has another layout on the device"));
}

TEST(SpecialKernelTest, RunningUnspecializedPlanThrows) {
  const AugmentPlan plan = build_plan({{"mine", PixelOp{test::Solarize{0.5F}}}});
  int nothing = 0;
  const cuda::StreamView stream(reinterpret_cast<cudaStream_t>(&nothing));
  EXPECT_THAT(
      thrown_by([&] { cuda::augment_async(plan, 1, nullptr, nullptr, nullptr, nullptr, stream); }),
      testing::AllOf(testing::HasSubstr("Error: the plan has no kernels"),
                     testing::HasSubstr("specialize()")));
}

TEST(SpecialKernelTest, CompilerMessageIsInError) {
  EXPECT_THAT(thrown_by([] { augment::compiled("int f() { return unheard_of; }", "sm_90"); }),
              testing::HasSubstr("unheard_of"));
}

}  // namespace
}  // namespace slipstream
