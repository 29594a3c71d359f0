#pragma once

#include "slipstream/ops/drawn.h"
#include "slipstream/ops/op.h"

namespace slipstream {

// Operations (op.h) that turn and stretch images (u8 or f32, height x width x 1 to 4 channels) and
// masks alike, about the middle, and keep their size. Masks: nearest neighbor, class 0 outside.
// Drawn for the sample's first image; a field of another size is an Error, as is an image of more
// than 65,536 pixels a side or 2^31 or more in all.
//
// Where an output pixel comes from is computed in float32 (interpolation.h) by the inverse of the
// map, which is made in double precision by basic IEEE operations alone and then rounded: the same
// pixels on every machine. nearest: the pixel whose center is nearest, halves to the right and
// down. bilinear: between four pixels, first across, then down; those outside of the image count as
// `fill`; u8 are then rounded, halves to even.

/// The inverse of what was drawn.
AffineMap forward(const DrawnWarp& drawn);

/// Turns counter-clockwise by degrees_min + uniform() (degrees_max - degrees_min).
struct Rotate {
  static constexpr std::string_view kName = "rotate";
  double degrees_min = 0;  ///< within 360 of 0
  double degrees_max = 0;
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;  ///< of what lies outside, all channels; for u8 whole, 0 to 255

  using Drawn = DrawnWarp;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return degrees_min != degrees_max; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  AffineMap map(const Drawn& drawn, const Shape&) const { return forward(drawn); }
};

/// Shears along x by shear_x degrees, then along y by shear_y (a shear moves each row to the right
/// by -tan(shear_x) times its distance below the middle; columns likewise), scales, turns
/// counter-clockwise, and moves by whole pixels. Draws, in order, each low + uniform() (high -
/// low): degrees, the moves (from -translate_x width to translate_x width, and down likewise;
/// rounded, halves up), scale, shear_x, shear_y. The order of the steps is that of torchvision's
/// RandomAffine, whose angles count clockwise.
struct Affine {
  static constexpr std::string_view kName = "affine";
  double degrees_min = 0;
  double degrees_max = 0;
  double translate_x = 0;  ///< at most, as a share of the width; 0 to 1
  double translate_y = 0;
  double scale_min = 1;  ///< 0.01 to 100
  double scale_max = 1;
  double shear_x_min = 0;  ///< degrees, within 80 of 0
  double shear_x_max = 0;
  double shear_y_min = 0;
  double shear_y_max = 0;
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;

  using Drawn = DrawnWarp;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const;
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  AffineMap map(const Drawn& drawn, const Shape&) const { return forward(drawn); }
};

}  // namespace slipstream
