#pragma once

#include "cuda/augment/program.h"
#include "transforms/device_chain.h"

namespace slipstream::augment {

Range dtype_range(DType dtype);
std::int32_t side(const Shape& shape, std::size_t i);

/// An operation as a kernel sees it, between these two forms of a field. Throws Refused, naming the
/// transform, where the operation has no form for the device.
ProgramStep lowered(const DeviceChain::Step& step, const FieldSpec& before, const FieldSpec& after);

}  // namespace slipstream::augment
