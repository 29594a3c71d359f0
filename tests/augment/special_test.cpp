#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "augment/kernels.h"
#include "augment/plan.h"
#include "slipstream/blur.h"
#include "slipstream/colour.h"
#include "slipstream/error.h"
#include "slipstream/masking.h"
#include "slipstream/resize.h"
#include "slipstream/transforms.h"
#include "slipstream/warp.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using Chain = std::vector<NamedOp>;

/// Of the chain's first pass, compiled for sm_90.
std::string code_of(const Chain& operations, AugmentOutput output = {}) {
  const DeviceChain chain(operations, 0, {{"image", FieldKind::image, DType::u8, {96, 80, 3}, 0}});
  const AugmentPlan plan(chain, 0, output);
  const AugmentPlan::Program& program = plan.program();
  const augment::PassMemory formats = augment::formats_of(program, 0);
  const augment::DeviceLimits limits = {227 << 10, 228 << 10};
  const augment::LaunchShape shape =
      augment::launch_shape(program.passes[0], program.channels, formats.drawn_bytes, limits);
  return augment::compiled(
      augment::special_source(program.passes[0], formats, program.channels, shape), "sm_90");
}

TEST(SpecialKernelTest, EveryWayToReadAnImageCompiles) {
  const Normalise normalise{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.4}};
  const std::vector<Chain> chains = {
      {{"float", ToFloat{}},
       {"resize", Resize{64, 64, false}},
       {"turn", Rotate{-45, 45}},
       {"blur", GaussianBlur{7, 0.1, 2}},
       {"normalise", normalise}},
      {{"crop", RandomResizedCrop{48, 40}}, {"flip", HorizontalFlip{}}, {"normalise", normalise}},
      {{"affine", Affine{.interpolation = Interpolation::bilinear}},
       {"blur", GaussianBlur{31, 1, 2}}},
      {{"crop", RandomCrop{64, 64, 4}}, {"mask", RandomMask{}}, {"grey", Greyscale{0.5}}},
      {{"jitter", ColourJitter{.saturation_min = 0.5, .hue_max = 0.1}}, {"scale", Scale{}}}};
  for (const Chain& chain : chains) {
    EXPECT_EQ(code_of(chain, {ImageLayout::channels_first, true}).substr(1, 3), "ELF");
  }
}

TEST(SpecialKernelTest, TheCompilersWordsAreInTheError) {
  EXPECT_THAT(thrown_by([] { augment::compiled("int f() { return unheard_of; }", "sm_90"); }),
              testing::HasSubstr("unheard_of"));
}

}  // namespace
}  // namespace slipstream
