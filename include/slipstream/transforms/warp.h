#pragma once

#include <array>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

// Operations (op.h) that rotate and stretch images (uint8 or float32, height x width x 1 to 4
// channels) and masks alike around the center, and keep their size. Masks use nearest-neighbor
// interpolation, with class 0 outside of the image. Parameters are generated for the sample's first
// image. A field of another size throws UnfitSample, and so does an image with a side of more than
// 65,536 pixels or with 2^31 pixels or more.
//
// The inverse of the map gives the input position of an output pixel. The inverse is computed in
// double precision with basic IEEE operations only and rounded to float32. Positions are computed
// in float32, so every machine gives the same pixels. `nearest` takes the pixel with the nearest
// center; halfway between two it takes the one to the right or below. `bilinear` interpolates
// between four pixels, first horizontally, then vertically. Pixels outside of the image count as
// `fill`. uint8 results are rounded, ties to even.

/// Returns the map whose inverse `drawn` holds.
AffineMap forward(const DrawnWarp& drawn);

/// Rotates counterclockwise by degrees[0] + uniform() (degrees[1] - degrees[0]) degrees, as
/// torchvision's RandomRotation does.
struct RandomRotation {
  static constexpr std::string_view kName = "random_rotation";
  std::array<double, 2> degrees = {0, 0};  ///< from -360 to 360
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;  ///< value outside of the image, in all channels; for uint8 an integer, 0 to 255

  using Drawn = DrawnWarp;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return degrees[0] != degrees[1]; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  AffineMap map(const Drawn& drawn, const Shape&) const { return forward(drawn); }
};

/// Shears along x, then along y, scales, rotates clockwise (RandomRotation rotates
/// counterclockwise), and translates by integer numbers of pixels. The steps, their order and their
/// directions are those of torchvision's RandomAffine. A shear along x moves each row to the right
/// by -tan(degrees) times its distance below the center; a shear along y moves each column down by
/// -tan(degrees) times its distance to the right of the center.
///
/// Generates, in this order, each as low + uniform() (high - low): degrees; the translation to the
/// right, from -translate[0] width to translate[0] width; the translation down, from -translate[1]
/// height to translate[1] height (both rounded, ties up); scale; the shear along x; the shear along
/// y.
struct RandomAffine {
  static constexpr std::string_view kName = "random_affine";
  std::array<double, 2> degrees = {0, 0};  ///< from -360 to 360
  /// Maximum translations as fractions of width and height; 0 to 1.
  std::array<double, 2> translate = {0, 0};
  std::array<double, 2> scale = {1, 1};  ///< 0.01 to 100
  /// Degrees, from -80 to 80: the smallest and largest along x, then those along y.
  std::array<double, 4> shear = {0, 0, 0, 0};
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;  ///< value outside of the image, in all channels; for uint8 an integer, 0 to 255

  using Drawn = DrawnWarp;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const;
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  AffineMap map(const Drawn& drawn, const Shape&) const { return forward(drawn); }
};

}  // namespace slipstream
