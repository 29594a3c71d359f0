#include "slipstream/transforms/auto_augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "slipstream/transforms/adjust.h"
#include "slipstream/transforms/containers.h"
#include "slipstream/transforms/warp.h"
#include "support/thrown.h"
#include "transforms/augmentations.h"
#include "transforms/chain_text.h"
#include "transforms/image_shapes.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Shape kShape{40, 60, 3};

/// Applies one augmentation.
Pixels<std::uint8_t> augmented(Augmentation kind, float magnitude,
                               const Pixels<std::uint8_t>& image) {
  DrawnAugmentations drawn;
  drawn.steps[0] = make_augmentation(kind, magnitude, image.shape);
  drawn.count = 1;
  drawn.height = static_cast<std::int32_t>(image.shape[0]);
  drawn.width = static_cast<std::int32_t>(image.shape[1]);
  return applied<std::uint8_t>(RandAugment{.fill = 9}, drawn, FieldKind::image, image);
}

TEST(Augmentations, ShearsKeepTheCornerInPlace) {
  const auto image = level_image(kShape);
  for (const float magnitude : {0.3F, -0.99F}) {
    const auto across = augmented(Augmentation::shear_x, magnitude, image);
    const auto down = augmented(Augmentation::shear_y, magnitude, image);
    for (std::int64_t y = 0; y < 40; ++y) {
      for (std::int64_t x = 0; x < 60; ++x) {
        const auto shift = [&](std::int64_t at) {
          return static_cast<std::int64_t>(
              std::floor(magnitude * (static_cast<float>(at) + 0.5F) + 0.5F));
        };
        const std::int64_t from_x = x + shift(y), from_y = y + shift(x);
        for (std::int64_t c = 0; c < 3; ++c) {
          ASSERT_EQ(across.at(y, x, c), from_x >= 0 && from_x < 60 ? image.at(y, from_x, c) : 9);
          ASSERT_EQ(down.at(y, x, c), from_y >= 0 && from_y < 40 ? image.at(from_y, x, c) : 9);
        }
      }
    }
  }
}

TEST(Augmentations, TranslationsAreRoundedTowardZero) {
  const auto image = level_image(kShape);
  const auto right = augmented(Augmentation::translate_x, 3.9F, image);
  const auto up = augmented(Augmentation::translate_y, -2.9F, image);
  for (std::int64_t y = 0; y < 40; ++y) {
    for (std::int64_t x = 0; x < 60; ++x) {
      ASSERT_EQ(right.at(y, x, 1), x >= 3 ? image.at(y, x - 3, 1) : 9);
      ASSERT_EQ(up.at(y, x, 2), y < 38 ? image.at(y + 2, x, 2) : 9);
    }
  }
}

TEST(Augmentations, RotationsEqualThoseOfRandomRotation) {
  const auto image = level_image(kShape);
  const RandomRotation rotation{.degrees = {33, 33}, .fill = 9};
  EXPECT_EQ(
      augmented(Augmentation::rotate, 33, image),
      applied<std::uint8_t>(rotation, rotation.draw(make_key(1), kShape), FieldKind::image, image));
}

/// Expects the value clamped and rounded toward 0. A value that is nearly a whole number may be
/// rounded to either.
void expect_truncated(std::uint8_t level, double value) {
  const auto truncated = [](double v) { return std::floor(std::clamp(v, 0.0, 255.0)); };
  ASSERT_GE(level, truncated(value - 1e-4));
  ASSERT_LE(level, truncated(value + 1e-4));
}

int gray_level(const Pixels<std::uint8_t>& image, std::size_t pixel) {
  const auto* p = &image.values[3 * pixel];
  return static_cast<int>(0.2989 * p[0] + 0.587 * p[1] + 0.114 * p[2] + 1e-5);
}

TEST(Augmentations, ColorsAreBlendedAndTruncated) {
  const auto image = level_image({21, 33, 3});
  double mean = 0;
  for (std::size_t i = 0; i < 21 * 33; ++i) mean += gray_level(image, i) / (21.0 * 33);
  for (const float drawn : {0.27F, -0.9F, 0.99F}) {
    const double magnitude = drawn;
    const auto bright = augmented(Augmentation::brightness, drawn, image);
    const auto color = augmented(Augmentation::color, drawn, image);
    const auto contrast = augmented(Augmentation::contrast, drawn, image);
    for (std::size_t i = 0; i < image.values.size(); ++i) {
      const double v = (1.0 + magnitude) * image.values[i];
      expect_truncated(bright.values[i], v);
      expect_truncated(color.values[i], v - magnitude * gray_level(image, i / 3));
      expect_truncated(contrast.values[i], v - magnitude * mean);
    }
  }
}

TEST(Augmentations, ColorDoesNotChangeGrayImages) {
  const auto image = level_image({21, 33, 1});
  EXPECT_EQ(augmented(Augmentation::color, 0.9F, image), image);
  EXPECT_EQ(augmented(Augmentation::identity, 0, image), image);
}

TEST(Augmentations, ValuesEqualThoseOfTheSingleOperations) {
  const auto image = level_image(kShape);
  const auto single = [&](const auto& op) {
    return applied<std::uint8_t>(op, {true}, FieldKind::image, image);
  };
  EXPECT_EQ(augmented(Augmentation::sharpness, 0.5F, image), single(RandomAdjustSharpness{1.5}));
  EXPECT_EQ(augmented(Augmentation::posterize, 3, image), single(RandomPosterize{3}));
  EXPECT_EQ(augmented(Augmentation::solarize, 0.5F, image), single(RandomSolarize{127.5}));
  EXPECT_EQ(augmented(Augmentation::auto_contrast, 0, image), single(RandomAutocontrast{}));
  EXPECT_EQ(augmented(Augmentation::equalize, 0, image), single(RandomEqualize{}));
  EXPECT_EQ(augmented(Augmentation::invert, 0, image), single(RandomInvert{}));
}

TEST(Augmentations, StepsAreAppliedInOrder) {
  const auto image = level_image(kShape);
  for (int count = 0; count <= DrawnAugmentations::kMost; ++count) {
    DrawnAugmentations drawn;
    drawn.height = 40;
    drawn.width = 60;
    auto expected = image;
    for (int i = 0; i < count; ++i) {
      const auto kind = i % 3 == 0   ? Augmentation::translate_x
                        : i % 3 == 1 ? Augmentation::identity
                                     : Augmentation::invert;
      drawn.steps[drawn.count++] = make_augmentation(kind, 5, image.shape);
      expected = augmented(kind, 5, expected);
    }
    EXPECT_EQ(applied<std::uint8_t>(RandAugment{.fill = 9}, drawn, FieldKind::image, image),
              expected);
  }
}

/// Returns how often each augmentation was drawn, and with which magnitudes.
template <typename Op>
std::map<Augmentation, std::map<float, int>> drawn_by(const Op& op, const Shape& shape) {
  std::map<Augmentation, std::map<float, int>> drawn;
  for (std::uint64_t sample = 0; sample < 14'000; ++sample) {
    const DrawnAugmentations all = op.draw(make_key(sample), shape);
    for (int i = 0; i < all.count; ++i) ++drawn[all.steps[i].kind][all.steps[i].magnitude];
  }
  return drawn;
}

TEST(RandAugment, DrawsFourteenAugmentationsWithTheirMagnitude) {
  const auto drawn = drawn_by(RandAugment{.num_ops = 3}, kShape);
  ASSERT_EQ(drawn.size(), 14u);
  EXPECT_EQ(drawn.count(Augmentation::invert), 0u);
  const std::map<Augmentation, double> expected = {
      {Augmentation::identity, 0},
      {Augmentation::shear_x, 0.3 * 9 / 30},
      {Augmentation::shear_y, 0.3 * 9 / 30},
      {Augmentation::translate_x, 150.0 / 331 * 60 * 9 / 30},
      {Augmentation::translate_y, 150.0 / 331 * 40 * 9 / 30},
      {Augmentation::rotate, 9},
      {Augmentation::brightness, 0.27},
      {Augmentation::color, 0.27},
      {Augmentation::contrast, 0.27},
      {Augmentation::sharpness, 0.27},
      {Augmentation::posterize, 7},  // 8 - 1.2
      {Augmentation::solarize, 0.7},
      {Augmentation::auto_contrast, 0},
      {Augmentation::equalize, 0}};
  for (const auto& [kind, magnitude] : expected) {
    const bool has_sign = kind >= Augmentation::shear_x && kind <= Augmentation::sharpness;
    const auto& magnitudes = drawn.at(kind);
    ASSERT_EQ(magnitudes.size(), has_sign ? 2u : 1u) << static_cast<int>(kind);
    EXPECT_NEAR(magnitudes.rbegin()->first, magnitude, 1e-5);
    EXPECT_NEAR(magnitudes.begin()->first, has_sign ? -magnitude : magnitude, 1e-5);
    for (const auto& [at, count] : magnitudes) EXPECT_NEAR(count, has_sign ? 1500 : 3000, 250);
  }
}

TEST(TrivialAugmentWide, DrawsOneAugmentationWithAnyMagnitude) {
  const auto drawn = drawn_by(TrivialAugmentWide{.num_magnitude_bins = 5}, kShape);
  ASSERT_EQ(drawn.size(), 14u);
  const std::map<Augmentation, double> most = {
      {Augmentation::shear_x, 0.99},    {Augmentation::translate_x, 32},
      {Augmentation::translate_y, 32},  {Augmentation::rotate, 135},
      {Augmentation::brightness, 0.99}, {Augmentation::solarize, 1},
      {Augmentation::posterize, 8}};
  for (const auto& [kind, magnitude] : most) {
    const bool has_sign = kind <= Augmentation::sharpness;
    EXPECT_NEAR(drawn.at(kind).rbegin()->first, magnitude, 1e-4);
    EXPECT_NEAR(drawn.at(kind).begin()->first,
                has_sign ? -magnitude : (kind == Augmentation::posterize ? 2 : 0), 1e-4);
    EXPECT_EQ(drawn.at(kind).size(), has_sign ? 9u : 5u);  // -0 equals 0
  }
}

TEST(AutoAugment, DrawsThePairsOfItsPolicy) {
  std::map<std::pair<Augmentation, Augmentation>, int> pairs;
  for (std::uint64_t sample = 0; sample < 20'000; ++sample) {
    const auto drawn = AutoAugment{AutoAugmentPolicy::cifar10}.draw(make_key(sample), kShape);
    if (drawn.count == 2) ++pairs[{drawn.steps[0].kind, drawn.steps[1].kind}];
  }
  // The third pair is sharpness with probabilities 0.8 and 0.9.
  EXPECT_NEAR((pairs[{Augmentation::sharpness, Augmentation::sharpness}]), 800 * 0.72, 100);
  EXPECT_EQ((pairs.count({Augmentation::solarize, Augmentation::invert})), 0u);  // probability 0
  const auto imagenet = drawn_by(AutoAugment{}, kShape);
  EXPECT_EQ(imagenet.count(Augmentation::translate_x), 0u);
  EXPECT_NEAR(imagenet.at(Augmentation::posterize).begin()->first, 4, 0);
  const auto svhn = drawn_by(AutoAugment{AutoAugmentPolicy::svhn}, kShape);
  EXPECT_EQ(svhn.count(Augmentation::color), 0u);
  EXPECT_NEAR(svhn.at(Augmentation::shear_x).rbegin()->first, 0.3, 1e-6);
}

TEST(AutoAugment, InvalidParametersAndFieldsAreRefused) {
  EXPECT_THAT(thrown_by([] { RandAugment{.num_ops = 9, .magnitude = 31}.validate(); }),
              AllOf(HasSubstr("rand_augment: num_ops is 9; it must be 0 to 8"),
                    HasSubstr("the magnitude is 31; it must be 0 or more, and less than num_mag")));
  EXPECT_THAT(thrown_by([] { TrivialAugmentWide{1}.validate(); }),
              HasSubstr("trivial_augment_wide: num_magnitude_bins is 1; it must be 2 to 65536"));
  for (const AnyOp& op : {AnyOp{RandAugment{.interpolation = Interpolation::bicubic}},
                          AnyOp{TrivialAugmentWide{.interpolation = Interpolation::bicubic}},
                          AnyOp{AutoAugment{.interpolation = Interpolation::bicubic}}})
    EXPECT_THAT(thrown_by([&] { op.validate(); }),
                HasSubstr("the interpolation must be nearest or bilinear"));
  EXPECT_EQ(
      refused_field(RandAugment{}, DType::float32, {4, 4, 3}),
      "Refused: rand_augment: image 'photo' is float32, 4 x 4 x 3; it must be uint8, height x "
      "width x 1 or 3: put rand_augment before operations that convert images to float32");
  EXPECT_THAT(refused_field(AutoAugment{}, DType::uint8, {4, 4, 2}), HasSubstr("4 x 4 x 2"));
  EXPECT_THAT(refused_field(AutoAugment{.fill = 0.5}, DType::uint8, {4, 4, 1}),
              HasSubstr("the fill of image 'photo', uint8, is 0.5; it must be a whole number"));
  EXPECT_EQ(refused_field(TrivialAugmentWide{}, DType::uint8, {-1, -1, 1}), "nothing");
}

TEST(AutoAugment, MasksAndBoxesAreRefused) {
  const FieldSpec image{"photo", FieldKind::image, DType::uint8, {4, 4, 3}, 0};
  const FieldSpec mask{"mask", FieldKind::mask, DType::uint8, {4, 4}, 0};
  const FieldSpec boxes{"boxes", FieldKind::boxes, DType::float32, {1, 4}, 0};
  const AnyOp nested{RandomChoice{{{"a", RandomApply{{{"b", TrivialAugmentWide{}}}}}}}};
  for (const AnyOp& op : {AnyOp{RandAugment{}}, nested}) {
    EXPECT_THAT(thrown_by([&] {
                  fields_after(op, {image, mask});
                }),
                HasSubstr("moves the pixels of images, and mask 'mask' would no longer match"));
    EXPECT_THAT(thrown_by([&] { fields_after(op, {image, boxes}); }), HasSubstr("boxes 'boxes'"));
    EXPECT_EQ(thrown_by([&] { fields_after(op, {image}); }), "nothing");
  }
}

TEST(AutoAugmentChain, ReadsEveryParameter) {
  const auto chain = parse_chain(with(R"(
      {"op": "rand_augment", "num_ops": 3, "magnitude": 5, "num_magnitude_bins": 10,
       "interpolation": "bilinear", "fill": 7},
      {"op": "trivial_augment_wide", "num_magnitude_bins": 12, "fill": null},
      {"op": "auto_augment", "policy": "svhn"}, {"name": "default", "op": "auto_augment"})"));
  const auto* rand = chain[0].op.get_if<RandAugment>();
  EXPECT_EQ(rand->num_ops, 3);
  EXPECT_EQ(rand->magnitude, 5);
  EXPECT_EQ(rand->num_magnitude_bins, 10);
  EXPECT_EQ(rand->interpolation, Interpolation::bilinear);
  EXPECT_EQ(rand->fill, 7);
  EXPECT_EQ(chain[1].op.get_if<TrivialAugmentWide>()->num_magnitude_bins, 12);
  EXPECT_EQ(chain[2].op.get_if<AutoAugment>()->policy, AutoAugmentPolicy::svhn);
  EXPECT_EQ(chain[3].op.get_if<AutoAugment>()->policy, AutoAugmentPolicy::imagenet);
  EXPECT_EQ(to_json_text(parse_chain(to_json_text(chain))), to_json_text(chain));
  EXPECT_THAT(chain_refusal(R"({"op": "auto_augment", "policy": "mnist"})"),
              HasSubstr("transforms[0].policy must be imagenet, cifar10 or svhn, not \"mnist\""));
}

}  // namespace
}  // namespace slipstream
