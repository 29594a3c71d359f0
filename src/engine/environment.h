#pragma once

#include "core/environment.h"
#include "slipstream/engine/context.h"

namespace slipstream {

/// The environment with PyTorch's version and the context's GPU, if it has one.
Environment environment_of(const Context& context);

}  // namespace slipstream
