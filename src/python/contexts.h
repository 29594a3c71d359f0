#pragma once

#include <memory>
#include <string>

#include "slipstream/run/context.h"

namespace slipstream {

/// The one context for a device ("cpu", "cuda:0"), made at the first call. Never destroyed, for
/// tensors may outlive the interpreter's modules. Call it with Python's lock, which it gives up
/// meanwhile.
std::shared_ptr<Context> context_of(const std::string& device);

}  // namespace slipstream
