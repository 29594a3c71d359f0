#pragma once

#include <array>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// Convolves images (uint8 or float32, height x width x 1 to 4 channels) with a Gaussian of
/// kernel_size x kernel_size pixels. Its standard deviation s = sigma[0] + uniform() (sigma[1] -
/// sigma[0]) is sampled for each sample.
///
/// The convolution runs horizontally, then vertically, in float32, and accumulates from the first
/// pixel to the last with fma. The weight at distance d is exp(-d^2 / (2 s^2)), divided by the sum
/// of all weights. It is computed in double precision with basic IEEE operations only and rounded
/// to float32. At the edges the image is mirrored around its last pixel, as in torchvision's
/// gaussian_blur. uint8 results are rounded at the end, ties to even.
struct GaussianBlur {
  static constexpr std::string_view kName = "gaussian_blur";
  std::int64_t kernel_size = 0;              ///< odd, 1 to 63, less than 2 x height and 2 x width
  std::array<double, 2> sigma = {0.1, 2.0};  ///< pixels, 0.01 to 1000

  using Drawn = DrawnBlur;

  void validate() const;
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const;
  bool is_random() const { return sigma[0] != sigma[1]; }
  std::optional<AnyOp> for_evaluation() const { return std::nullopt; }
  Drawn draw(const RandomKey& key, const Shape& shape) const;
  void apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
             Scratch& scratch) const;
};

}  // namespace slipstream
