#pragma once

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

// Operations (op.h) that apply a random sequence of augmentations to images: uint8, height x width
// x 1 or 3 channels. Augmentations, magnitudes and probabilities are those of torchvision's
// transforms of the same names for tensors. Masks and boxes are refused, because some augmentations
// move pixels, and so is an image of another size than the sample's first one (UnfitSample).
//
// The augmentations of adjust.h are computed as there. Brightness f v, color f v + (1 - f) y (y is
// the pixel's gray level, rounded toward 0) and contrast f v + (1 - f) m (m is the mean of y) are
// clamped and rounded toward 0, with f = 1 + magnitude. Rotations are counterclockwise around the
// center. A shear by m along x moves a row that is d pixels below the upper edge to the left by m
// d; along y likewise. Translations by m pixels are rounded toward 0. All positions are computed as
// in warp.h.
//
// A magnitude with index i of n is low + i (high - low) / (n - 1), computed in float32 from the
// nearer end. Shears, translations, rotations, brightness, color, contrast and sharpness have a
// random sign: negative if uniform() < 1 / 2.

/// Applies `num_ops` augmentations. For each, generates its kind, below(14), and its sign. Source:
/// Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space",
/// 2019.
struct RandAugment {
  static constexpr std::string_view kName = "rand_augment";
  std::int64_t num_ops = 2;              ///< 0 to 8
  std::int64_t magnitude = 9;            ///< index of the magnitude: below num_magnitude_bins
  std::int64_t num_magnitude_bins = 31;  ///< 2 to 65,536
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;  ///< value outside of the image, in all channels; a whole number, 0 to 255

  using Drawn = DrawnAugmentations;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return num_ops > 0; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
};

/// Applies one augmentation with a random magnitude, from larger ranges than RandAugment's.
/// Generates its kind, below(14), the index of its magnitude, below(num_magnitude_bins), and its
/// sign. Source: Müller and Hutter, "TrivialAugment: Tuning-free yet state-of-the-art data
/// augmentation", ICCV 2021.
struct TrivialAugmentWide {
  static constexpr std::string_view kName = "trivial_augment_wide";
  std::int64_t num_magnitude_bins = 31;  ///< 2 to 65,536
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;  ///< as in RandAugment

  using Drawn = DrawnAugmentations;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return true; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
};

/// The data set for which a policy of AutoAugment was found.
enum class AutoAugmentPolicy : std::uint8_t { imagenet, cifar10, svhn };

/// Applies one of the 25 pairs of augmentations of a policy: below(25). Then, for each of the two,
/// generates whether it is applied, uniform() < its probability, and its sign. Source: Cubuk et
/// al., "AutoAugment: Learning augmentation strategies from data", CVPR 2019.
struct AutoAugment {
  static constexpr std::string_view kName = "auto_augment";
  AutoAugmentPolicy policy = AutoAugmentPolicy::imagenet;
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;  ///< as in RandAugment

  using Drawn = DrawnAugmentations;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return true; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
};

}  // namespace slipstream
