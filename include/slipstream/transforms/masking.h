#pragma once

#include <array>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

// Operations (op.h) that hide parts of images (uint8 or float32, height x width x 1 to 4 channels).
// Other fields pass unchanged.

/// Fills a random rectangle with one value, with probability p: where uniform() < p. Area, ratio
/// and place of the rectangle are drawn as RandomResizedCrop draws those of its part, in up to ten
/// tries, but with h = round(sqrt(area ratio)) and w = round(sqrt(area / ratio)), as in
/// torchvision. Where no try fits, nothing is erased. The rectangle may be as high or as wide as
/// the image, which torchvision's may not. Throws UnfitSample for an image of another size than the
/// sample's first one. Source: Zhong et al., "Random erasing data augmentation", AAAI 2020.
struct RandomErasing {
  static constexpr std::string_view kName = "random_erasing";
  double p = 0.5;                              ///< 0 to 1
  std::array<double, 2> scale = {0.02, 0.33};  ///< share of the image's area; above 0, at most 1
  std::array<double, 2> ratio = {0.3, 3.3};    ///< height / width; 0.001 to 1000
  double value =
      0;  ///< fills all channels, in the image's units; for uint8 a whole number, 0 to 255

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

/// Sets random pixels to 0 in all channels. Each pixel is masked with probability p on its own.
/// With `dilate`, the pixels above, below, left and right of such a pixel are masked too. Draws 16
/// bits for each pixel; docs/random.md says which. Throws UnfitSample for an image of
/// more than 2^26 blocks of eight pixels, where each row has blocks of its own.
struct RandomMask {
  static constexpr std::string_view kName = "random_mask";
  double p = 0.25;  ///< rounded to a multiple of 2^-16, halves up
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
  /// p in steps of 2^-16, 0 to 65,536: a pixel is masked where its 16 bits are below it.
  std::uint32_t threshold() const;
};

}  // namespace slipstream
