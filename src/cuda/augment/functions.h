#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/augment/program.h"
#include "slipstream/transforms/op.h"

namespace slipstream::augment {

/// An operation of a user's own in a chain.
struct UserFunction {
  NamedOp named;
  DeviceFunction device;
};

/// Source for a kernel that does `pass`: the functions that its steps name, and call_function(). To
/// stand before all that includes evaluate.h; empty where it has none.
std::string functions_source(const PassProgram& pass, const std::vector<UserFunction>& functions);

/// Throws Error with the transform's name and the compiler's words, unless the function compiles
/// for pixels of that many channels. Takes hundredths of a second and no device.
void require_compiles(const UserFunction& function, std::int32_t channels);

}  // namespace slipstream::augment
