#pragma once

#include <cstddef>
#include <vector>

#include "slipstream/engine/pipeline.h"

namespace slipstream {

/// How many transforms, counted from the last, a GPU does where it does those that first_on_device
/// names. Throws Refused as that does.
std::size_t transforms_on_device(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                                 std::size_t batch_size, const WireFormats& wire);

}  // namespace slipstream
