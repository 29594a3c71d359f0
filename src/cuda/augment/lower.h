#pragma once

#include "cuda/augment/program.h"
#include "transforms/device_chain.h"

namespace slipstream::augment {

Range dtype_range(DType dtype);
std::int32_t side(const Shape& shape, std::size_t i);

/// Converts an operation to the form that kernels use. `before` and `after` describe the field.
/// Throws Refused with the transform if the operation has no device form.
ProgramStep lowered(const DeviceChain::Step& step, const FieldSpec& before, const FieldSpec& after);

}  // namespace slipstream::augment
