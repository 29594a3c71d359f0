#pragma once

#include "slipstream/core/array.h"
#include "slipstream/transforms/op.h"
#include "transforms/interpolation.h"

namespace slipstream {

/// Computes every pixel of `out` from its source position under `warp`, as warp.h describes. `fill`
/// is for images only: masks use 0 outside and are never interpolated.
void warp_pixels(const DrawnWarp& warp, FieldKind kind, Interpolation interpolation, float fill,
                 const ConstArray& in, const MutableArray& out, Scratch& scratch);

}  // namespace slipstream
