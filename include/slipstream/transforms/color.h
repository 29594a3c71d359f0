#pragma once

#include <array>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

// Operations (op.h) on the colors of images. Other fields are not changed. Images are height x
// width x channels, uint8 or float32. For uint8 (levels from 0 to 255), results are rounded after
// every step, ties to even. For float32, white is 1, and ColorJitter clamps to [0, 1] after every
// step.

/// Changes brightness, contrast, saturation and hue by random amounts in a random order. Images
/// have three channels, or one if saturation and hue do not change. With the factor f, the steps
/// convert a value x, in float32, as follows:
///   brightness  f x
///   contrast    f x + (1 - f) m, where m is the mean gray of the image
///   saturation  f x + (1 - f) y, where y is the pixel's gray: 0.2989 R + 0.587 G + 0.114 B
///   hue         rotates the pixel's HSV hue by that fraction of the circle
/// Source: torchvision's documentation of ColorJitter. uint8 results are rounded, while torchvision
/// truncates them.
///
/// The order of the steps is generated first: for i = 3, 2, 1, entries i and below(i + 1) of the
/// list brightness, contrast, saturation, hue are swapped. Then four factors are generated in the
/// order of that list, each low + uniform() (high - low), rounded to float32. A factor of 1, or a
/// hue of 0, changes nothing.
struct ColorJitter {
  static constexpr std::string_view kName = "color_jitter";
  std::array<double, 2> brightness = {1, 1};  ///< factors: 0 to 1000
  std::array<double, 2> contrast = {1, 1};
  std::array<double, 2> saturation = {1, 1};
  std::array<double, 2> hue = {0, 0};  ///< fraction of the circle: -0.5 to 0.5

  using Drawn = DrawnJitter;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const;
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  /// Returns true if the contrast of any sample may change. The image's mean gray is needed then.
  bool changes_contrast() const { return contrast[0] != 1 || contrast[1] != 1; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
};

/// Converts images of three channels to gray: each channel becomes 0.2989 R + 0.587 G + 0.114 B.
struct Grayscale {
  static constexpr std::string_view kName = "grayscale";
  std::int64_t num_output_channels = 0;  ///< must be given as 3: images keep their channels

  using Drawn = DrawnGrayscale;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {true}; }
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

/// Converts images of three channels to gray as Grayscale does, with probability p: if uniform() <
/// p.
struct RandomGrayscale {
  static constexpr std::string_view kName = "random_grayscale";
  double p = 0.1;  ///< 0 to 1

  using Drawn = DrawnGrayscale;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0 && p < 1; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

/// Multiplies the three color channels by a matrix and adds an offset. The result is float32, three
/// channels, not rounded, in the units of the image. An output channel is offset + m0 R, then + m1
/// G, then + m2 B, each with fma in float32; matrix and offset are rounded to float32 first. The
/// default converts RGB levels to full-range YCbCr (ITU-T T.871).
struct ConvertColor {
  static constexpr std::string_view kName = "convert_color";
  std::array<double, 9> matrix = {0.299, 0.587, 0.114,    -0.16874, -0.33126,
                                  0.5,   0.5,   -0.41869, -0.08131};  ///< row by row
  std::array<double, 3> offset = {0, 128, 128};                       ///< in the units of the image

  struct Drawn {};

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {}; }
  void apply(Drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

/// Divides images of one to four channels by a number. The result is float32: value / divisor,
/// where the divisor is rounded to float32 first.
struct Divide {
  static constexpr std::string_view kName = "divide";
  double divisor = 255;  ///< not 0

  struct Drawn {};

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {}; }
  void apply(Drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

}  // namespace slipstream
