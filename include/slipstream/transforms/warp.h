#pragma once

#include <array>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

// Operations (op.h) that turn and stretch images (uint8 or float32, height x width x 1 to 4
// channels) and masks alike, about the middle, and keep their size. Masks take the nearest pixel,
// and class 0 outside of the image. Parameters are drawn for the sample's first image. A field of
// another size throws UnfitSample, and so does an image of more than 65,536 pixels a side or 2^31
// or more in all.
//
// The inverse of the map says where an output pixel comes from. The inverse is made in double
// precision by basic IEEE operations alone and rounded to float32, in which the places are
// computed, so every machine gets the same pixels. `nearest` takes the pixel whose center is
// nearest; halfway between two it takes the one to the right or below. `bilinear` interpolates
// between four pixels, first across, then down. Pixels outside of the image count as `fill`. uint8
// results are rounded, halves to even.

/// The map whose inverse was drawn.
AffineMap forward(const DrawnWarp& drawn);

/// Turns counter-clockwise by degrees[0] + uniform() (degrees[1] - degrees[0]) degrees, as
/// torchvision's RandomRotation does.
struct RandomRotation {
  static constexpr std::string_view kName = "random_rotation";
  std::array<double, 2> degrees = {0, 0};  ///< within 360 of 0
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;  ///< value outside, in all channels; for uint8 whole, 0 to 255

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

/// Shears along x, then along y, scales, turns clockwise (RandomRotation turns counter-clockwise),
/// and moves by whole pixels. The steps, their order and their directions are those of
/// torchvision's RandomAffine. A shear along x moves each row to the right by -tan(degrees) times
/// its distance below the middle; a shear along y moves each column down by -tan(degrees) times its
/// distance to the right of the middle.
///
/// Draws, in this order, each low + uniform() (high - low): degrees; the move to the right, from
/// -translate[0] width to translate[0] width; the move down, from -translate[1] height to
/// translate[1] height (both rounded, halves up); scale; the shear along x; the shear along y.
struct RandomAffine {
  static constexpr std::string_view kName = "random_affine";
  std::array<double, 2> degrees = {0, 0};    ///< within 360 of 0
  std::array<double, 2> translate = {0, 0};  ///< largest moves, shares of width and height; 0 to 1
  std::array<double, 2> scale = {1, 1};      ///< 0.01 to 100
  /// Degrees, within 80 of 0: the smallest and largest along x, then those along y.
  std::array<double, 4> shear = {0, 0, 0, 0};
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;  ///< value outside, in all channels; for uint8 whole, 0 to 255

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
