#pragma once

#include "engine/steady_rate.h"

namespace slipstream {

/// Chooses the plan that `auto` keeps: pipelined if its steady steps were faster; serial if they
/// were not, or if either plan had no steady steps. The reason says whether the difference is
/// larger than the noise.
AutoChoice choose_mode(const SteadyRate& serial, const SteadyRate& pipelined);

}  // namespace slipstream
