#pragma once

#include "slipstream/transforms/warp.h"
#include "transforms/float_images.h"

namespace slipstream {

inline constexpr auto kImage = FieldKind::image;
inline constexpr auto kMask = FieldKind::mask;
inline constexpr auto kNearest = Interpolation::nearest;
inline constexpr auto kBilinear = Interpolation::bilinear;

inline RandomAffine affine(Interpolation interpolation = kNearest, double fill = 0) {
  RandomAffine op;
  op.interpolation = interpolation;
  op.fill = fill;
  return op;
}

template <typename T>
Pixels<T> transformed(const RandomAffine& op, FieldKind kind, const Pixels<T>& in,
                      RandomKey key = {}) {
  return applied<T>(op, op.draw(key, in.shape), kind, in);
}

}  // namespace slipstream
