#pragma once

#include <vector>

#include "slipstream/engine/pipeline.h"
#include "slipstream/engine/result.h"

namespace slipstream {

/// Of the forks in the modules of a declaration.
std::vector<Gain> fork_gains(const Pipeline& pipeline);

}  // namespace slipstream
