#pragma once

#include "engine/steady_rate.h"

namespace slipstream {

/// Which plan `auto` keeps: pipelined where its steady steps were faster, serial where they were
/// not or where one of both had none; and whether the difference is beyond noise.
AutoChoice choose_mode(const SteadyRate& serial, const SteadyRate& pipelined);

}  // namespace slipstream
