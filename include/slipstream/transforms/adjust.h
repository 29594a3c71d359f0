#pragma once

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

// Operations (op.h) that change the values of an image with probability p: if uniform() < p.
// Otherwise the image is not changed, and neither are other fields. Images are height x width x 1
// to 4 channels, uint8 or float32. For float32, white is 1. The operations compute in float32, with
// the same steps as torchvision's transforms of the same names, and like these they round uint8
// results toward 0.

/// Replaces each value v by 255 - v, in float32 images by 1 - v.
struct RandomInvert {
  static constexpr std::string_view kName = "random_invert";
  double p = 0.5;  ///< 0 to 1

  using Drawn = DrawnAdjustment;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0 && p < 1; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

/// Keeps the `bits` most significant bits of each level and sets the others to 0. In float32
/// images, a value from 0 to 1 is rounded down to a multiple of 2^-bits that is below 1; values
/// outside of this range are clamped to it.
struct RandomPosterize {
  static constexpr std::string_view kName = "random_posterize";
  std::int64_t bits = 8;  ///< 0 to 8
  double p = 0.5;         ///< 0 to 1

  using Drawn = DrawnAdjustment;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0 && p < 1; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

/// Inverts the values that are `threshold` or more, as RandomInvert does.
struct RandomSolarize {
  static constexpr std::string_view kName = "random_solarize";
  double threshold = 0;  ///< at most white: 255 for uint8, 1 for float32
  double p = 0.5;        ///< 0 to 1

  using Drawn = DrawnAdjustment;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0 && p < 1; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

/// Replaces each value v by v + (1 - sharpness_factor) (s - v), clamped to the range from black to
/// white. s is the mean of the 3 x 3 pixels around, in which the center counts 5 times; for uint8
/// it is rounded. Pixels at the edges are not changed. A factor of 0 blurs, 1 changes nothing, and
/// 2 sharpens.
struct RandomAdjustSharpness {
  static constexpr std::string_view kName = "random_adjust_sharpness";
  double sharpness_factor = 1;  ///< 0 or more
  double p = 0.5;               ///< 0 to 1

  using Drawn = DrawnAdjustment;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0 && p < 1; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

/// Stretches the values of each channel, so that its smallest value becomes black and its largest
/// white. A channel with a single value is not changed, except that float32 values are clamped to 0
/// to 1. NaN is ignored and becomes black.
struct RandomAutocontrast {
  static constexpr std::string_view kName = "random_autocontrast";
  double p = 0.5;  ///< 0 to 1

  using Drawn = DrawnAdjustment;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0 && p < 1; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

/// Equalizes the histogram of each channel of a uint8 image. With n pixels, of which m have the
/// channel's largest level, step = floor((n - m) / 255). The new level is
/// min(255, floor((b + floor(step / 2)) / step)), where b is the number of pixels with a lower
/// level than this one. If step is 0, the channel is not changed.
struct RandomEqualize {
  static constexpr std::string_view kName = "random_equalize";
  double p = 0.5;  ///< 0 to 1

  using Drawn = DrawnAdjustment;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0 && p < 1; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

}  // namespace slipstream
