#pragma once

#include <array>

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

/// Turns counter-clockwise by degrees[0] + uniform() (degrees[1] - degrees[0]), as torchvision's
/// RandomRotation does.
struct RandomRotation {
  static constexpr std::string_view kName = "random_rotation";
  std::array<double, 2> degrees = {0, 0};  ///< within 360 of 0
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;  ///< of what lies outside, all channels; for u8 whole, 0 to 255

  using Drawn = DrawnWarp;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return degrees[0] != degrees[1]; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  AffineMap map(const Drawn& drawn, const Shape&) const { return forward(drawn); }
};

/// Shears along x, then along y (a shear by some degrees along x moves each row to the right by
/// -tan(degrees) times its distance below the middle; columns likewise), scales, turns clockwise
/// (RandomRotation turns counter-clockwise), and moves by whole pixels: the steps, their order and
/// senses are those of torchvision's RandomAffine. Draws, in order, each low + uniform() (high -
/// low): degrees, the moves (from -translate[0] width to translate[0] width, and down likewise;
/// rounded, halves up), scale, the shear along x, the shear along y.
struct RandomAffine {
  static constexpr std::string_view kName = "random_affine";
  std::array<double, 2> degrees = {0, 0};    ///< within 360 of 0
  std::array<double, 2> translate = {0, 0};  ///< at most, as shares of width and height; 0 to 1
  std::array<double, 2> scale = {1, 1};      ///< 0.01 to 100
  /// Degrees, within 80 of 0: two along x, then two along y.
  std::array<double, 4> shear = {0, 0, 0, 0};
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
