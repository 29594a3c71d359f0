#include "slipstream/transforms/auto_augment.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "cuda/augment/chain_cases.h"
#include "slipstream/transforms/containers.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "transforms/augmentations.h"

// Tests the operations of auto_augment.h in chains, with the same executors as chain_test.cpp.
namespace slipstream {
namespace {

using test::ChainCase;
using test::image_field;
using Chain = std::vector<NamedOp>;

class AutoAugmentTest : public testing::Test {
 protected:
  void SetUp() override { test::require_executor(); }
};

constexpr Interpolation kInterpolations[] = {Interpolation::nearest, Interpolation::bilinear};

/// Replaces the parameters of all samples by the augmentations `steps` (kind and magnitude) of
/// `op`.
void set_augmentations(ChainCase& of, const RandAugment& op,
                       const std::vector<std::pair<Augmentation, float>>& steps) {
  const FieldSpec& field = of.chain.inputs().front();
  DrawnAugmentations drawn;
  drawn.height = static_cast<std::int32_t>(field.shape[0]);
  drawn.width = static_cast<std::int32_t>(field.shape[1]);
  for (const auto& [kind, magnitude] : steps)
    drawn.steps[drawn.count++] = make_augmentation(kind, magnitude, field.shape);
  HostArray out;
  Scratch scratch;
  of.expected.clear();
  const std::size_t each = of.images.size() / of.batch_size;
  for (std::size_t i = 0; i < of.batch_size; ++i) {
    std::memcpy(of.drawn.data() + i * of.chain.drawn_bytes(), &drawn, sizeof(drawn));
    op.apply(drawn, FieldKind::image, {of.images.data() + i * each, field.dtype, field.shape},
             out.reset(field.dtype, field.shape), scratch);
    of.expected.insert(of.expected.end(), out.view().data, out.view().data + each);
  }
}

TEST_F(AutoAugmentTest, EachAugmentationMatchesHost) {
  using enum Augmentation;
  const std::pair<Augmentation, float> all[] = {
      {identity, 0},      {shear_x, 0.3F}, {shear_y, -0.99F},  {translate_x, 7.9F},
      {translate_y, -31}, {rotate, 33},    {brightness, 0.4F}, {brightness, -0.9F},
      {color, 0.7F},      {color, -0.99F}, {contrast, 0.6F},   {contrast, -0.3F},
      {sharpness, 0.9F},  {sharpness, -1}, {posterize, 3},     {solarize, 0.4F},
      {auto_contrast, 0}, {equalize, 0},   {invert, 0}};
  for (const Interpolation interpolation : kInterpolations) {
    const RandAugment op{.num_ops = 2, .interpolation = interpolation, .fill = 9};
    for (const auto& step : all) {
      SCOPED_TRACE(static_cast<int>(step.first));
      for (const std::int64_t channels : {1, 3}) {
        ChainCase single({{"augment", op}}, image_field(37, 70, channels), 2);
        set_augmentations(single, op, {step});
        single.check();
        ChainCase twice({{"augment", op}}, image_field(30, 24, channels), 2);
        set_augmentations(twice, op, {step, {sharpness, 0.5F}});
        twice.check();
        set_augmentations(twice, op, {{equalize, 0}, step});
        twice.check();
      }
    }
  }
}

TEST_F(AutoAugmentTest, RandomAugmentationsMatchHost) {
  for (const Interpolation interpolation : kInterpolations) {
    for (const std::int64_t channels : {1, 3}) {
      const FieldSpec field = image_field(40, 36, channels);
      ChainCase({{"rand", RandAugment{.interpolation = interpolation, .fill = 3}}}, field, 40)
          .check();
      ChainCase({{"wide", TrivialAugmentWide{31, interpolation, 200}}}, field, 40).check();
      for (const auto policy :
           {AutoAugmentPolicy::imagenet, AutoAugmentPolicy::cifar10, AutoAugmentPolicy::svhn})
        ChainCase({{"auto", AutoAugment{policy, interpolation, 128}}}, field, 30).check();
    }
  }
}

TEST_F(AutoAugmentTest, EveryNumberOfAugmentationsMatchesHost) {
  for (std::int64_t count = 0; count <= 8; ++count) {
    const ChainCase chain({{"rand", RandAugment{.num_ops = count, .magnitude = 20}}},
                          image_field(25, 33), 6);
    // Each augmentation needs statistics, tables and images.
    EXPECT_EQ(chain.plan.launches(), count == 0 ? 1U : static_cast<std::size_t>(3 * count));
    chain.check();
  }
}

TEST_F(AutoAugmentTest, ImagesOfFewPixelsMatchHost) {
  for (const auto& [height, width] : {std::pair{1, 1}, {1, 4}, {2, 3}, {3, 3}, {4, 2}})
    ChainCase({{"rand", RandAugment{3}}}, image_field(height, width), 20).check();
}

TEST_F(AutoAugmentTest, AugmentationsBetweenOtherStepsMatchHost) {
  for (const Interpolation interpolation : kInterpolations) {
    const Chain chain = {
        {"crop", RandomResizedCrop{{44, 40}}},
        {"flip", RandomHorizontalFlip{}},
        {"rand", RandAugment{.interpolation = interpolation}},
        {"wide", RandomApply{{{"wide", TrivialAugmentWide{31, interpolation}}}, 0.5}},
        {"auto", RandomChoice{{{"auto", AutoAugment{}}, {"rand", RandAugment{1}}}}},
        {"small", Resize{{32, 30}}},
        {"normalize", Normalize{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.4}}}};
    ChainCase(chain, image_field(64, 61), 12).check();
  }
}

}  // namespace
}  // namespace slipstream
