#pragma once

#include "slipstream/op.h"
#include "slipstream/region.h"

namespace slipstream {

/// Resizes the pixels of `region`, which must lie in `in`, as Resize says; no pixel outside of it
/// has a part in the result.
void resample(FieldKind kind, const ConstArray& in, const Region& region, const MutableArray& out,
              Scratch& scratch);

}  // namespace slipstream
