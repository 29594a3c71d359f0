#pragma once

#include "slipstream/ops/drawn.h"
#include "slipstream/ops/op.h"

namespace slipstream {

/// Convolves images (u8 or f32, height x width x 1 to 4 channels) with a Gaussian of size x size
/// pixels, sigma = sigma_min + uniform() (sigma_max - sigma_min): across, then down, in float32,
/// from the first pixel to the last by fma. Weights exp(-d^2 / (2 sigma^2)), divided by their sum,
/// in double precision by basic IEEE operations alone, then rounded to float32. Beyond an edge the
/// image is mirrored about its last pixel, as in torchvision's gaussian_blur. u8 are rounded at the
/// end, halves to even.
struct GaussianBlur {
  static constexpr std::string_view kName = "gaussian_blur";
  std::int64_t size = 0;  ///< odd, 1 to 63; size / 2 is less than height and width
  double sigma_min = 0;   ///< pixels, at least 0.01
  double sigma_max = 0;

  using Drawn = DrawnBlur;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return sigma_min != sigma_max; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
};

}  // namespace slipstream
