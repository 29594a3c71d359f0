#pragma once

#include <vector>

#include "slipstream/engine/pipeline.h"
#include "slipstream/engine/result.h"

namespace slipstream {

/// Returns the gain of each ForkJoin in the modules of a declared pipeline.
std::vector<Gain> fork_gains(const Pipeline& pipeline);

}  // namespace slipstream
