#pragma once

#include "slipstream/engine/result.h"

namespace slipstream {

/// Adds a later part of a training to the result of those before it. The rate, the wait for input,
/// lanes, memory and plan are the later part's; all else is of both.
void continue_with(RunResult& total, RunResult next);

}  // namespace slipstream
