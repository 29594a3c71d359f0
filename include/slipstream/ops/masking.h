#pragma once

#include <array>

#include "slipstream/ops/drawn.h"
#include "slipstream/ops/op.h"

namespace slipstream {

// Operations (op.h) that blot out parts of images (u8 or f32, height x width x 1 to 4 channels);
// other fields pass unchanged.

/// Where uniform() < p, a random rectangle takes one value. Its area and ratio are drawn, and its
/// place found, as RandomResizedCrop's up to ten tries are, but with h = round(sqrt(area ratio))
/// and w = round(sqrt(area / ratio)), as in torchvision; where none fits, nothing is erased. An
/// image of another size than the sample's first is an Error. Source: Zhong et al., "Random erasing
/// data augmentation", AAAI 2020. Unlike torchvision's, a rectangle may be as high or as wide as
/// the image.
struct RandomErasing {
  static constexpr std::string_view kName = "random_erasing";
  double p = 0.5;                              ///< 0 to 1
  std::array<double, 2> scale = {0.02, 0.33};  ///< of the image's area; above 0, at most 1
  std::array<double, 2> ratio = {0.3, 3.3};    ///< height / width; 0.001 to 1000
  double value = 0;  ///< of all channels, in the image's units: for u8 a whole number, 0 to 255

  using Drawn = DrawnErasing;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
};

/// Each pixel is masked with probability p on its own; then, with `dilate`, the pixels above,
/// below, left and right of a masked one are masked too. Masked pixels become 0 in all channels.
/// Draws 16 bits a pixel: mask_math.h says which. An image of more than 2^26 blocks (of eight
/// pixels of a row) is an Error.
struct RandomMask {
  static constexpr std::string_view kName = "random_mask";
  double p = 0.25;  ///< rounded to a multiple of 2^-16, halves up
  bool dilate = true;

  using Drawn = DrawnMask;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return threshold() > 0 && threshold() < 65'536; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  /// For mask_bits().
  std::uint32_t threshold() const;
};

}  // namespace slipstream
