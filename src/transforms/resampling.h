#pragma once

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// Resizes the pixels of `crop.region`, which must be inside the image that `in` holds, as Resize
/// does. No pixel outside of the region contributes to the result. For a reduced image, all pixels
/// that the region touches contribute.
/// REQUIRES: masks are not reduced
void resample(FieldKind kind, bool antialias, const ConstArray& in, const DrawnCrop& crop,
              const MutableArray& out, Scratch& scratch);

/// The part of resample() for float32 images and for images without antialiasing.
void resample_floats(bool antialias, const ConstArray& in, const Region& region,
                     const MutableArray& out, Scratch& scratch);

}  // namespace slipstream
