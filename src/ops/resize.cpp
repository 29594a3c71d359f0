#include "slipstream/ops/resize.h"

#include "ops/geometry.h"
#include "ops/resampling.h"
#include "slipstream/ops/op.h"

namespace slipstream {

void Resize::validate() const { require_sides(kName, height, width); }

FieldSpec Resize::output(const FieldSpec& in) const { return resampled(kName, in, height, width); }

void Resize::apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
                   Scratch& scratch) const {
  if (in.shape[0] < 1 || in.shape[1] < 1) throw UnfitSample("resize: the field has no pixels");
  const bool is_reduced = drawn.reduction > 1;
  resample(kind, antialias, in, is_reduced ? drawn : draw({}, in.shape), out, scratch);
}

}  // namespace slipstream
