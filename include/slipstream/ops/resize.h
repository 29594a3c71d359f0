#pragma once

#include "slipstream/ops/drawn.h"
#include "slipstream/ops/op.h"
#include "slipstream/ops/size.h"

namespace slipstream {

/// What Resize makes of an image: height x width pixels, or, of one number, an image of the same
/// proportions whose shorter side has that many, as in torchvision.
struct ResizedSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t shorter_side = 0;  ///< 0: height and width say the size

  constexpr ResizedSize() = default;
  constexpr ResizedSize(std::int64_t shorter) : shorter_side(shorter) {}
  constexpr ResizedSize(std::int64_t rows, std::int64_t columns) : height(rows), width(columns) {}
  bool keeps_ratio() const { return shorter_side != 0; }
  /// Height and width for an image of `height` x `width` pixels, both at least 1. With shorter_side
  /// the longer one becomes floor(shorter_side longer / shorter), computed in integers.
  Size of(const Size& image) const;
  bool operator==(const ResizedSize&) const = default;
};

/// Resizes to height x width whatever the shape before (stretched, not cropped), or, where `size`
/// is one number, until the shorter side has that many pixels, in the same proportions: what comes
/// behind then sees images of different sizes, unless those before it have one size.
///
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
  ResizedSize size;
  bool antialias = true;

  using Drawn = DrawnCrop;  ///< all of the image

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  /// Throws UnfitSample where the longer side would be too large.
  Drawn draw(const RandomKey&, const Shape& shape) const;
  /// A field that is not reduced is taken as it is, whatever size was drawn for.
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  /// Not where it keeps the ratio: what it makes then has no size that is known before.
  bool only_resizes() const { return antialias && !size.keeps_ratio(); }
  AffineMap map(const Drawn& drawn, const Shape&) const {
    return drawn.resized_to(size.of({drawn.height, drawn.width}));
  }
  Region region(const Drawn& drawn) const { return drawn.region; }
  std::int64_t reduction(const Drawn& drawn) const {
    return only_resizes() ? drawn.reduction_to({size.height, size.width}) : 1;
  }
  Drawn within(const Drawn& drawn, const Window& window) const { return drawn.within(window); }
};

}  // namespace slipstream
