#pragma once

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// Resizes the pixels of `crop.region`, which must lie in the image that `in` holds, as Resize
/// says; no pixel outside of it has a part in the result. Of a reduced image all pixels do that it
/// touches. REQUIRES: masks are not reduced
void resample(FieldKind kind, bool antialias, const ConstArray& in, const DrawnCrop& crop,
              const MutableArray& out, Scratch& scratch);

/// The part of it for float32 images and for those that are not antialiased.
void resample_floats(bool antialias, const ConstArray& in, const Region& region,
                     const MutableArray& out, Scratch& scratch);

}  // namespace slipstream
