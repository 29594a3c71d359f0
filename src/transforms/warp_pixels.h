#pragma once

#include "slipstream/core/array.h"
#include "slipstream/transforms/op.h"
#include "transforms/interpolation.h"

namespace slipstream {

/// Writes every pixel of `out` from where `warp` says, as warp.h describes it. `fill`: of images;
/// that of masks is 0, and they are never interpolated.
void warp_pixels(const DrawnWarp& warp, FieldKind kind, Interpolation interpolation, float fill,
                 const ConstArray& in, const MutableArray& out, Scratch& scratch);

}  // namespace slipstream
