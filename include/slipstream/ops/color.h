#pragma once

#include <array>

#include "slipstream/ops/drawn.h"
#include "slipstream/ops/op.h"

namespace slipstream {

struct ColorMatrix;

// Operations (op.h) on the colors of images; other fields pass unchanged. Images are u8 (levels, 0
// to 255, rounded after every step, halves to even) or f32 (white is 1; clamped to 0 to 1 after
// every step of ColorJitter). color_math.h holds their arithmetic.

/// Changes brightness, contrast, saturation and hue by random amounts in a random order. Three
/// channels; with one, saturation and hue must stay as they are. In float32:
///   brightness  f x
///   contrast    f x + (1 - f) m, m the mean of the image's gray: see mean_of()
///   saturation  f x + (1 - f) y, y the pixel's gray: 0.2989 R + 0.587 G + 0.114 B
///   hue         the hue of HSV, turned by that part of the circle
/// Source: torchvision's documentation of ColorJitter. Unlike there, u8 are rounded, not cut off.
/// Draws the order (for i = 3, 2, 1: place i and place below(i + 1) of brightness, contrast,
/// saturation, hue change places), then four factors in the order named, each low + uniform()
/// (high - low), rounded to float32. A factor of 1, or a hue of 0, changes nothing.
struct ColorJitter {
  static constexpr std::string_view kName = "color_jitter";
  std::array<double, 2> brightness = {1, 1};  ///< factors: 0 to 1000
  std::array<double, 2> contrast = {1, 1};
  std::array<double, 2> saturation = {1, 1};
  std::array<double, 2> hue = {0, 0};  ///< of the circle: -0.5 to 0.5

  using Drawn = DrawnJitter;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const;
  /// Whether any sample's contrast may change: its mean must then be known before the result.
  bool changes_contrast() const { return contrast[0] != 1 || contrast[1] != 1; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
};

/// All three channels become 0.2989 R + 0.587 G + 0.114 B.
struct Grayscale {
  static constexpr std::string_view kName = "grayscale";
  std::int64_t num_output_channels = 0;  ///< must be said, as 3: images keep their channels

  using Drawn = DrawnGrayscale;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {true}; }
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

/// Where uniform() < p, all three channels become what Grayscale makes of them.
struct RandomGrayscale {
  static constexpr std::string_view kName = "random_grayscale";
  double p = 0.1;  ///< 0 to 1

  using Drawn = DrawnGrayscale;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0 && p < 1; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

/// Three channels to three by a matrix: f32, not rounded, in the units of the image. Each is offset
/// + m0 R, then + m1 G, then + m2 B, by fma in float32; the parameters are rounded to float32
/// first. The default is RGB to YCbCr of full range (ITU-T T.871) for levels.
struct ConvertColor {
  static constexpr std::string_view kName = "convert_color";
  std::array<double, 9> matrix = {0.299, 0.587, 0.114,    -0.16874, -0.33126,
                                  0.5,   0.5,   -0.41869, -0.08131};  ///< row by row
  std::array<double, 3> offset = {0, 128, 128};

  struct Drawn {};

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {}; }
  void apply(Drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
  /// The parameters as the arithmetic takes them.
  ColorMatrix in_float32() const;
};

/// f32, value / divisor, of one to four channels; the divisor is rounded to float32 first.
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
