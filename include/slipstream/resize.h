#pragma once

#include "slipstream/op.h"
#include "slipstream/region.h"

namespace slipstream {

/// Resizes to height x width whatever the shape before (stretched, not cropped). Images: Pillow's
/// bilinear, that is with antialiasing: a triangle filter widened by the scale where it shrinks,
/// in fixed point with 22 fractional bits, horizontally then vertically, each pass rounded to
/// uint8 (equal to Pillow's within 1 level; bit for bit unless it goes down first, as it does since
/// version 13 where that is much cheaper). Masks: nearest neighbour, source index
/// floor((i + 0.5) * in / out), in integers.
/// Source: Pillow, "Concepts: Filters"; the filter is the convolution of the image with
/// max(0, 1 - |x| / scale) / scale, scale = max(1, in / out).
struct Resize {
  static constexpr std::string_view kName = "resize";
  static constexpr bool kOnlyResizes = true;
  std::int64_t height = 0;
  std::int64_t width = 0;

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
  Region region(const Drawn& drawn) const { return drawn.region; }
  std::int64_t reduction(const Drawn& drawn) const { return drawn.reduction_to(height, width); }
  Drawn within(const Drawn& drawn, const Window& window) const { return drawn.within(window); }
};

}  // namespace slipstream
