#pragma once

#include "core/environment.h"
#include "slipstream/engine/context.h"

namespace slipstream {

/// The environment with PyTorch's version and the context's GPU, if it has one.
Environment collect_environment(const Context& context);

}  // namespace slipstream
