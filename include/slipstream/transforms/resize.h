#pragma once

#include "slipstream/core/region.h"
#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// Output size of Resize. Two numbers are height and width in pixels. One number is the length of
/// the shorter side and keeps the aspect ratio, as in torchvision.
struct ResizedSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t shorter_side = 0;  ///< 0 if height and width are used

  constexpr ResizedSize() = default;
  constexpr ResizedSize(std::int64_t shorter) : shorter_side(shorter) {}
  constexpr ResizedSize(std::int64_t rows, std::int64_t columns) : height(rows), width(columns) {}
  /// Returns true if the size is given by the shorter side.
  bool keeps_ratio() const { return shorter_side != 0; }
  /// Returns the output size for an image of size `image`. With shorter_side the longer side
  /// becomes floor(shorter_side * longer / shorter), computed in integers.
  /// REQUIRES: both sides of `image` are at least 1
  Size of(const Size& image) const;
  bool operator==(const ResizedSize&) const = default;
};

/// Resizes images and masks. With two numbers in `size`, the new height and width, an image is
/// stretched to that size, not cropped. With one number, images with different aspect ratios still
/// have different sizes afterwards.
///
/// Images with `antialias`: a convolution with max(0, 1 - |x| / scale) / scale, where scale =
/// max(1, in / out), horizontally and then vertically. Source: Pillow, "Concepts: Filters".
/// - uint8, 1 to 4 channels: Pillow's bilinear resize, in fixed point with 22 fractional bits,
/// rounded
///   after each axis. The result is within 1 level of Pillow's, and equal to it bit for bit unless
///   Pillow resizes vertically first, as it does since version 13 if that is much cheaper.
/// - float32, 1 to 4 channels: an axis that shrinks uses the same weights, accumulated in float32
/// from
///   first to last with fma. An axis that does not shrink is interpolated as without `antialias`.
///
/// Images without `antialias`, uint8 or float32, 1 to 4 channels: bilinear interpolation between
/// two neighbors on each axis, horizontally and then vertically, in float32. uint8 results are
/// rounded at the end, ties to even.
///
/// Masks: nearest neighbor, with the source index floor((i + 0.5) * in / out) in integers.
struct Resize {
  static constexpr std::string_view kName = "resize";
  ResizedSize size;
  bool antialias = true;

  using Drawn = DrawnCrop;  ///< the whole image

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  /// Throws UnfitSample if the result would have a side of more than 65,536 pixels or more than
  /// kDefaultPixelLimit pixels in total.
  Drawn draw(const RandomKey&, const Shape& shape) const;
  /// Throws UnfitSample for a field without pixels. The size of a field that was not downscaled by
  /// the decoder may differ from the size that draw() was called with.
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  /// Returns false if the aspect ratio is kept, because the size of the result is not known
  /// beforehand then.
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
