#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "slipstream/core/region.h"
#include "slipstream/ops/drawn.h"
#include "slipstream/ops/op.h"
#include "slipstream/ops/size.h"

namespace slipstream {

struct ChannelStatistics;

// Operations (op.h) on the host. Geometry moves images (height x width x channels) and masks
// (height x width) alike, drawn for the sample's first image; a field of another size than that is
// an Error. Pointwise operations touch images alone. What a random operation draws is named below,
// in order, in the words of docs/random.md.

/// The middle size.height x size.width pixels: top = floor((H - size.height) / 2), left likewise.
/// Any dtype. An image smaller than that is an Error.
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

/// size.height x size.width pixels from anywhere in the image, which is first given `padding` black
/// pixels (class 0 in masks) on each side. Any dtype. Draws top = below(H + 2 padding - size.height
/// + 1), then left likewise. An image smaller than the crop, padded, is an Error.
struct RandomCrop {
  static constexpr std::string_view kName = "random_crop";
  Size size;
  std::int64_t padding = 0;  ///< less than height and width

  using Drawn = DrawnCrop;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return true; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  bool only_resizes() const { return true; }
  AffineMap map(const Drawn& drawn, const Shape&) const { return drawn.resized_to(size); }
  Region region(const Drawn& drawn) const { return drawn.inside(); }
  Drawn within(const Drawn& drawn, const Window& window) const { return drawn.within(window); }
};

/// A crop of random area and aspect ratio, resized to `size` as Resize does it. Source:
/// torchvision's documentation and the paper that it names (Szegedy et al., "Going deeper with
/// convolutions", CVPR 2015). Up to ten times: area = H W (scale[0] + uniform() (scale[1] -
/// scale[0])), ratio = exp(log ratio[0] + uniform() (log ratio[1] - log ratio[0])), w =
/// round(sqrt(area ratio)), h = round(sqrt(area / ratio)), halves up. The first that fits is taken,
/// at top = below(H - h + 1), left = below(W - w + 1). Otherwise the largest centered crop whose
/// ratio is within the bounds. Computed in double precision by basic IEEE operations alone: the
/// same pixels on every machine.
struct RandomResizedCrop {
  static constexpr std::string_view kName = "random_resized_crop";
  Size size;
  std::array<double, 2> scale = {0.08, 1.0};  ///< of the image's area; above 0, at most 1
  std::array<double, 2> ratio = {3.0 / 4.0, 4.0 / 3.0};  ///< width / height; 0.001 to 1000
  bool antialias = true;

  using Drawn = DrawnCrop;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return true; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
  bool only_resizes() const { return antialias; }
  AffineMap map(const Drawn& drawn, const Shape&) const { return drawn.resized_to(size); }
  Region region(const Drawn& drawn) const { return drawn.inside(); }
  std::int64_t reduction(const Drawn& drawn) const {
    return antialias ? drawn.reduction_to(size) : 1;
  }
  Drawn within(const Drawn& drawn, const Window& window) const { return drawn.within(window); }
};

/// Mirrors left and right where uniform() < p. Any dtype.
struct RandomHorizontalFlip {
  static constexpr std::string_view kName = "random_horizontal_flip";
  double p = 0.5;  ///< 0 to 1

  using Drawn = DrawnFlip;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0 && p < 1; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
  AffineMap map(Drawn drawn, const Shape& shape) const;
};

/// Mirrors top and bottom where uniform() < p. Any dtype.
struct RandomVerticalFlip {
  static constexpr std::string_view kName = "random_vertical_flip";
  double p = 0.5;  ///< 0 to 1

  using Drawn = DrawnFlip;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image || kind == FieldKind::mask; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return p > 0 && p < 1; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
  AffineMap map(Drawn drawn, const Shape& shape) const;
};

/// Images: u8 to f32. With `scale` from 0 to 1, level / 255, rounded once; without it the levels
/// themselves. f32 stay as they are.
struct ToDtype {
  static constexpr std::string_view kName = "to_dtype";
  DType dtype = DType::f32;  ///< f32 alone
  bool scale = false;

  struct Drawn {};

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return false; }
  Drawn draw(const RandomKey&, const Shape&) const { return {}; }
  void apply(Drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const;
};

/// Images of one to four channels: f32, (value - mean) / std by channel; u8 are first divided by
/// 255. In float32, each operation rounded; mean and std are rounded to float32 first. Each of the
/// two has as many numbers as the image has channels, or one for all of them.
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
  /// How many channels `mean` and `std` are for; 1: for any number.
  std::size_t channels() const {
    if (mean.size() == 1) return std.size();
    return std.size() == 1 ? mean.size() : std::min(mean.size(), std.size());
  }
  /// Of channel `c` of an image. REQUIRES: c < channels() or channels() == 1
  double mean_of(std::size_t c) const { return mean.size() == 1 ? mean[0] : mean[c]; }
  double std_of(std::size_t c) const { return std.size() == 1 ? std[0] : std[c]; }
  /// The parameters as the arithmetic takes them.
  ChannelStatistics in_float32() const;
};

}  // namespace slipstream
