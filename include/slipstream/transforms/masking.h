#pragma once

#include <array>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

// Operations (op.h) that hide parts of images (uint8 or float32, height x width x 1 to 4 channels).
// Other fields are not changed.

/// Fills a random rectangle with one value, with probability p: if uniform() < p. Area, ratio and
/// position of the rectangle are generated like those of RandomResizedCrop, in up to ten attempts,
/// but with h = round(sqrt(area ratio)) and w = round(sqrt(area / ratio)), as in torchvision. If no
/// attempt fits, nothing is erased. Unlike torchvision's, the rectangle may be as high or as wide
/// as the image. Throws UnfitSample for an image whose size differs from the sample's first image.
/// Source: Zhong et al., "Random erasing data augmentation", AAAI 2020.
struct RandomErasing {
  static constexpr std::string_view kName = "random_erasing";
  double p = 0.5;                              ///< 0 to 1
  std::array<double, 2> scale = {0.02, 0.33};  ///< fraction of the image's area; above 0, at most 1
  std::array<double, 2> ratio = {0.3, 3.3};    ///< height / width; 0.001 to 1000
  /// Fills all channels, in the image's units; for uint8 a whole number, 0 to 255.
  double value = 0;

  using Drawn = DrawnErasing;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
};

/// Sets random pixels to 0 in all channels. Each pixel is masked independently with probability p.
/// With `dilate`, the pixels above, below, left and right of a masked pixel are masked too. Uses 16
/// random bits for each pixel; docs/random.md specifies which. Throws UnfitSample for an image of
/// more than 2^26 blocks of eight pixels (each row starts a new block).
struct RandomMask {
  static constexpr std::string_view kName = "random_mask";
  double p = 0.25;  ///< rounded to a multiple of 2^-16, ties up
  bool dilate = true;

  using Drawn = DrawnMask;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return threshold() > 0 && threshold() < 65'536; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  /// Returns p in units of 2^-16, from 0 to 65,536: a pixel is masked if its 16 bits are below it.
  std::uint32_t threshold() const;
};

}  // namespace slipstream
