#pragma once

#include <array>

#include "slipstream/ops/drawn.h"
#include "slipstream/ops/op.h"

namespace slipstream {

/// Convolves images (u8 or f32, height x width x 1 to 4 channels) with a Gaussian of kernel_size x
/// kernel_size pixels and a standard deviation s = sigma[0] + uniform() (sigma[1] - sigma[0]):
/// across, then down, in float32, from the first pixel to the last by fma. Weights exp(-d^2 / (2
/// s^2)), divided by their sum, in double precision by basic IEEE operations alone, then rounded to
/// float32. Beyond an edge the image is mirrored about its last pixel, as in torchvision's
/// gaussian_blur. u8 are rounded at the end, halves to even.
struct GaussianBlur {
  static constexpr std::string_view kName = "gaussian_blur";
  std::int64_t kernel_size = 0;  ///< odd, 1 to 63; half of it is less than height and width
  std::array<double, 2> sigma = {0.1, 2.0};  ///< pixels, 0.01 to 1000

  using Drawn = DrawnBlur;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return sigma[0] != sigma[1]; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
};

}  // namespace slipstream
