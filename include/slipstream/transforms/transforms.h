#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "slipstream/core/region.h"
#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

// Operations (op.h) that crop, resize, flip and scale. Crops and flips move images (height x width
// x channels) and masks (height x width) alike. Their parameters are generated for the sample's
// first image; a field of another size throws UnfitSample if the operation crops. The other
// operations change only images. H and W are the height and width of the image. uniform() and
// below(bound) are the sample's next random numbers, in the order in which they are written here
// (docs/random.md).

/// Pixels that are added on each side of an image. A single number is that of every side.
struct Padding {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t right = 0;
  std::int64_t bottom = 0;

  constexpr Padding() = default;
  constexpr Padding(std::int64_t each) : left(each), top(each), right(each), bottom(each) {}
  constexpr Padding(std::int64_t to_left, std::int64_t above, std::int64_t to_right,
                    std::int64_t below)
      : left(to_left), top(above), right(to_right), bottom(below) {}
  bool operator==(const Padding&) const = default;
};

/// Takes the center size.height x size.width pixels: top = (H - size.height) / 2, left = (W -
/// size.width) / 2, both rounded to the nearest integer, ties to even, as in torchvision. Where the
/// image is smaller, it is padded with black pixels (class 0 in masks): floor((size.height - H) /
/// 2) rows above it, the others below it; columns likewise. Accepts any dtype. Throws UnfitSample
/// for an image without pixels.
struct CenterCrop {
  static constexpr std::string_view kName = "center_crop";
  Size size;

  using Drawn = DrawnCrop;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  bool only_resizes() const { return true; }
  AffineMap map(const Drawn& drawn, const Shape&) const { return drawn.resized_to(size); }
  Region region(const Drawn& drawn) const { return drawn.inside(); }
  Drawn within(const Drawn& drawn, const Window& window) const { return drawn.within(window); }
};

/// Adds pixels around the image, as torchvision's Pad does. Accepts any dtype. Masks are padded
/// like the image, with the number in `fill` as their class. Throws UnfitSample if an image does
/// not have more pixels than the padding of a side (reflect), or at least as many (symmetric).
struct Pad {
  static constexpr std::string_view kName = "pad";
  Padding padding = {};  ///< pixels on each side, 0 to 65,536
  /// Values of the added pixels with PaddingMode::constant: one number, or one per channel (not for
  /// masks). For integers a whole number that the dtype can hold.
  std::vector<double> fill = {0};
  PaddingMode padding_mode = PaddingMode::constant;

  using Drawn = DrawnCrop;  ///< the whole padded image

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  AffineMap map(const Drawn& drawn, const Shape&) const {
    return drawn.resized_to({drawn.region.height, drawn.region.width});
  }
};

/// Takes size.height x size.width pixels from a random position in the image, after padding it as
/// Pad does: top = below(H + padding.top + padding.bottom - size.height + 1), then left = below(W +
/// padding.left + padding.right - size.width + 1). If `pad_if_needed`, and the padded image has d
/// rows too few, it gets d more rows on both sides, as in torchvision; columns likewise. Accepts
/// any dtype. Throws UnfitSample for an image that is smaller than the crop even with its padding,
/// and as Pad does.
struct RandomCrop {
  static constexpr std::string_view kName = "random_crop";
  Size size;
  Padding padding = {};  ///< pixels on each side, 0 to 65,536
  bool pad_if_needed = false;
  std::vector<double> fill = {0};  ///< as in Pad
  PaddingMode padding_mode = PaddingMode::constant;

  using Drawn = DrawnCrop;

  /// Returns true if the crop may contain pixels that are not in the image.
  bool pads() const { return pad_if_needed || padding != Padding{}; }

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return true; }
  std::optional<AnyOp> for_evaluation() const { return CenterCrop{size}; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  bool only_resizes() const { return !pads(); }
  AffineMap map(const Drawn& drawn, const Shape&) const { return drawn.resized_to(size); }
  Region region(const Drawn& drawn) const;
  Drawn within(const Drawn& drawn, const Window& window) const { return drawn.within(window); }
};

/// Takes a crop of random area and aspect ratio and resizes it to `size` as Resize does. Images are
/// uint8 or float32 with 1 to 4 channels. Throws UnfitSample for an image without pixels. Source:
/// torchvision's documentation and the paper that it names (Szegedy et al., "Going deeper with
/// convolutions", CVPR 2015).
///
/// The crop's height h and width w are generated in up to ten attempts: area = H W (scale[0] +
/// uniform() (scale[1] - scale[0])), ratio = exp(log ratio[0] + uniform() (log ratio[1] - log
/// ratio[0])), w = round(sqrt(area ratio)), h = round(sqrt(area / ratio)), ties up. The first crop
/// that fits into the image is used, at top = below(H - h + 1), left = below(W - w + 1). If none
/// fits, the largest centered crop whose ratio is in range is used. Everything is computed in
/// double precision with basic IEEE operations only, so every machine gives the same pixels.
struct RandomResizedCrop {
  static constexpr std::string_view kName = "random_resized_crop";
  Size size;
  std::array<double, 2> scale = {0.08, 1.0};  ///< fraction of the image's area; above 0, at most 1
  std::array<double, 2> ratio = {3.0 / 4.0, 4.0 / 3.0};  ///< width / height; 0.001 to 1000
  bool antialias = true;                                 ///< bilinear and bicubic only
  Interpolation interpolation = Interpolation::bilinear;

  using Drawn = DrawnCrop;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return true; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  bool only_resizes() const { return antialias && interpolation == Interpolation::bilinear; }
  AffineMap map(const Drawn& drawn, const Shape&) const { return drawn.resized_to(size); }
  Region region(const Drawn& drawn) const { return drawn.inside(); }
  std::int64_t reduction(const Drawn& drawn) const {
    return only_resizes() ? drawn.reduction_to(size) : 1;
  }
  Drawn within(const Drawn& drawn, const Window& window) const { return drawn.within(window); }
};

/// Flips left and right with probability p: if uniform() < p. Accepts any dtype.
struct RandomHorizontalFlip {
  static constexpr std::string_view kName = "random_horizontal_flip";
  double p = 0.5;  ///< 0 to 1

  using Drawn = DrawnFlip;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0 && p < 1; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
  AffineMap map(Drawn drawn, const Shape& shape) const;
};

/// Flips top and bottom with probability p: if uniform() < p. Accepts any dtype.
struct RandomVerticalFlip {
  static constexpr std::string_view kName = "random_vertical_flip";
  double p = 0.5;  ///< 0 to 1

  using Drawn = DrawnFlip;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0 && p < 1; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
  AffineMap map(Drawn drawn, const Shape& shape) const;
};

/// Converts uint8 images to float32. With `scale` the values are level / 255, rounded once, from 0
/// to 1. Without it they are the levels themselves. float32 images are not changed.
struct ToDtype {
  static constexpr std::string_view kName = "to_dtype";
  DType dtype = DType::float32;  ///< must be float32
  bool scale = false;

  struct Drawn {};

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {}; }
  void apply(Drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

/// Normalizes images of one to four channels. The result is float32: (value - mean) / std in each
/// channel. The levels of uint8 images are divided by 255 first. Mean and std are rounded to
/// float32 first, and so is the result of each operation. `mean` and `std` each have one number per
/// channel, or a single number for all channels.
struct Normalize {
  static constexpr std::string_view kName = "normalize";
  std::vector<double> mean = {0, 0, 0};
  std::vector<double> std = {1, 1, 1};  ///< above 0

  struct Drawn {};

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {}; }
  void apply(Drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
  /// Number of channels that `mean` and `std` are given for. 1 means any number.
  std::size_t channels() const {
    if (mean.size() == 1) return std.size();
    return std.size() == 1 ? mean.size() : std::min(mean.size(), std.size());
  }
  /// The mean and std of channel `c` of an image. REQUIRES: c < channels() or channels() == 1
  double channel_mean(std::size_t c) const { return mean.size() == 1 ? mean[0] : mean[c]; }
  double channel_std(std::size_t c) const { return std.size() == 1 ? std[0] : std[c]; }
};

}  // namespace slipstream
