#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/augment/program.h"
#include "slipstream/transforms/op.h"

namespace slipstream::augment {

/// A user-defined operation in a chain.
struct UserFunction {
  NamedOp named;
  DeviceFunction device;
};

/// Returns source code for the kernel of `pass`: the functions that its steps use, and
/// call_function(). It must come before everything that includes evaluate.h. Empty if the pass uses
/// none.
std::string functions_source(const PassProgram& pass, const std::vector<UserFunction>& functions);

/// Throws Error with the transform's name and the compiler's messages unless the function compiles
/// for pixels of that many channels. Takes some hundredths of a second and needs no device.
void require_compiles(const UserFunction& function, std::int32_t channels);

}  // namespace slipstream::augment
