#pragma once

#include "slipstream/loader.h"

namespace slipstream {

/// Copies one sample's value of `field` to its place in the slab, narrowed to the wire type.
/// Throws Error where the value is not what `field` declares (dtype, shape, classes).
void collate(const SlabField& field, const ConstArray& value, std::size_t position,
             std::byte* slab);

}  // namespace slipstream
