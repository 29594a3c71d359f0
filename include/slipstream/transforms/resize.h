#pragma once

#include "slipstream/core/region.h"
#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// Output size of Resize, as in torchvision. Two numbers are height and width in pixels. One number
/// is the length of the shorter side and keeps the aspect ratio; so does `max_size` alone, the
/// length of the longer side. With both, max_size limits the longer side.
struct ResizedSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t shorter_side = 0;  ///< 0 if it is not given
  std::int64_t max_size = 0;      ///< 0 if it is not given

  constexpr ResizedSize() = default;
  constexpr ResizedSize(std::int64_t shorter) : shorter_side(shorter) {}
  constexpr ResizedSize(std::int64_t rows, std::int64_t columns) : height(rows), width(columns) {}
  /// Returns true if the size is not given by height and width.
  bool keeps_ratio() const { return shorter_side != 0 || max_size != 0; }
  /// Returns the output size for an image of size `image`. With shorter_side the longer side
  /// becomes floor(shorter_side * longer / shorter). If that is above max_size, or if only max_size
  /// is given, the longer side becomes max_size, and the shorter side, which may become 0,
  /// floor(max_size * shorter / longer) of the sides so far. Computed in integers.
  /// REQUIRES: both sides of `image` are at least 1
  Size of(const Size& image) const;
  bool operator==(const ResizedSize&) const = default;
};

/// Resizes images and masks. With two numbers in `size`, the new height and width, an image is
/// stretched to that size, not cropped. With one number, images with different aspect ratios still
/// have different sizes afterwards.
///
/// Images, bilinear with `antialias`: a convolution with max(0, 1 - |x| / scale) / scale, where
/// scale = max(1, in / out), horizontally and then vertically. Source: Pillow, "Concepts: Filters".
/// - uint8, 1 to 4 channels: Pillow's bilinear resize, in fixed point with 22 fractional bits,
/// rounded
///   after each axis. The result is within 1 level of Pillow's, and equal to it bit for bit unless
///   Pillow resizes vertically first, as it does since version 13 if that is much cheaper.
/// - float32, 1 to 4 channels: an axis that shrinks uses the same weights, accumulated in float32
/// from
///   first to last with fma. An axis that does not shrink is interpolated as without `antialias`.
///
/// Images, bilinear without `antialias`, uint8 or float32, 1 to 4 channels: interpolation between
/// two neighbors on each axis, horizontally and then vertically, in float32. uint8 results are
/// rounded at the end, ties to even.
///
/// Images, bicubic: the weighted sum of four neighbors on each axis, horizontally and then
/// vertically, with the cubic filter of ResizeFilter (resize_filter.h). With `antialias` the filter
/// is stretched by in / out along an axis that shrinks. The weights have 22 fractional bits. uint8
/// images use fixed point, rounded to 0 to 255 after each axis; float32 images accumulate in
/// float32 from first to last with fma.
///
/// Images, nearest: output i is the input floor(i * (in / out)), where both operations round to
/// float32. Images, nearest_exact: the input floor((i + 0.5) * in / out), computed in integers.
///
/// Masks: as `nearest` if that is the interpolation, else as nearest_exact.
struct Resize {
  static constexpr std::string_view kName = "resize";
  ResizedSize size;
  bool antialias = true;  ///< bilinear and bicubic only
  Interpolation interpolation = Interpolation::bilinear;

  using Drawn = DrawnCrop;  ///< the whole image

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  /// Throws UnfitSample if the result would have a side of 0 or more than 65,536 pixels, or more
  /// than kDefaultPixelLimit pixels in total.
  Drawn draw(const RandomKey&, const Shape& shape) const;
  /// Throws UnfitSample for a field without pixels. The size of a field that was not downscaled by
  /// the decoder may differ from the size that draw() was called with.
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  /// Returns false if the aspect ratio is kept, because the size of the result is not known
  /// beforehand then.
  bool only_resizes() const {
    return antialias && interpolation == Interpolation::bilinear && !size.keeps_ratio();
  }
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
