#pragma once

#include "slipstream/ops/drawn.h"
#include "slipstream/ops/op.h"

namespace slipstream {

/// Resizes to height x width whatever the shape before (stretched, not cropped).
/// Images, antialiased: the convolution with max(0, 1 - |x| / scale) / scale, scale = max(1, in /
/// out), across and then down (source: Pillow, "Concepts: Filters").
/// - u8 of 1 to 4 channels: Pillow's bilinear, in fixed point with 22 fractional bits, each pass
///   rounded (equal to Pillow's within 1 level; bit for bit unless it goes down first, as it does
///   since version 13 where that is much cheaper).
/// - f32 of 1 to 4 channels: an axis that shrinks by the same weights, in float32, first to last by
///   fma; one that does not as below.
/// Images, not antialiased (u8 or f32 of 1 to 4 channels): bilinear between two neighbors on each
/// axis (interpolation.h), across and then down, in float32; u8 are rounded at the end, halves to
/// even.
/// Masks: nearest neighbor, source index floor((i + 0.5) * in / out), in integers.
struct Resize {
  static constexpr std::string_view kName = "resize";
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool antialias = true;

  using Drawn = DrawnCrop;  ///< all of the image

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape& shape) const {
    return {{0, 0, shape[0], shape[1]}, shape[0], shape[1]};
  }
  /// A field that is not reduced is taken as it is, whatever size was drawn for.
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  bool only_resizes() const { return antialias; }
  AffineMap map(const Drawn& drawn, const Shape&) const { return drawn.resized_to(height, width); }
  Region region(const Drawn& drawn) const { return drawn.region; }
  std::int64_t reduction(const Drawn& drawn) const {
    return antialias ? drawn.reduction_to(height, width) : 1;
  }
  Drawn within(const Drawn& drawn, const Window& window) const { return drawn.within(window); }
};

}  // namespace slipstream
