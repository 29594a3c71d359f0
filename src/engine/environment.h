#pragma once

#include "core/environment.h"
#include "slipstream/engine/context.h"

namespace slipstream {

/// Returns the environment with PyTorch's version and, if the context has a GPU, its properties.
Environment collect_environment(const Context& context);

}  // namespace slipstream
