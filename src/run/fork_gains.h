#pragma once

#include <vector>

#include "slipstream/results/result.h"
#include "slipstream/run/pipeline.h"

namespace slipstream {

/// Of the forks in the modules of a declaration.
std::vector<Gain> fork_gains(const Pipeline& pipeline);

}  // namespace slipstream
