#pragma once

#include <vector>

#include "cuda/augment/program.h"
#include "transforms/device_chain.h"

namespace slipstream::augment {

Range dtype_range(DType dtype);
std::int32_t side(const Shape& shape, std::size_t i);

/// A step of a program, and the operation that it is a part of.
struct LoweredStep {
  ProgramStep step;
  const NamedOp* named;  ///< in the DeviceChain
};

/// Converts an operation to the steps that kernels apply. `before` and `after` describe the field.
/// Throws Refused with the transform if the operation has no device form.
std::vector<LoweredStep> lowered(const DeviceChain::Step& step, const FieldSpec& before,
                                 const FieldSpec& after);

}  // namespace slipstream::augment
