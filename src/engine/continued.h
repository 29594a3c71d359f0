#pragma once

#include "slipstream/engine/result.h"

namespace slipstream {

/// Adds the result of a later part of a training to the result of the parts before it. Rate, wait
/// for input, lanes, memory and plan come from the later part; everything else covers both parts.
void continue_with(RunResult& total, RunResult next);

}  // namespace slipstream
