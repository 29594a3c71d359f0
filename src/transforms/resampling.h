#pragma once

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// How pixels are resized, see Resize.
struct Resampling {
  Interpolation interpolation = Interpolation::bilinear;
  bool antialias = true;
};

/// Resizes the pixels of `crop.region`, which must be inside the image that `in` holds, as Resize
/// does. No pixel outside of the region contributes to the result. For a reduced image, all pixels
/// that the region touches contribute.
/// REQUIRES: only images of antialiased bilinear resizes are reduced
void resample(FieldKind kind, const Resampling& how, const ConstArray& in, const DrawnCrop& crop,
              const MutableArray& out, Scratch& scratch);

/// The part of resample() for bilinear and bicubic resizes of float32 images, and for bilinear
/// resizes without antialiasing.
void resample_floats(const Resampling& how, const ConstArray& in, const Region& region,
                     const MutableArray& out, Scratch& scratch);

}  // namespace slipstream
