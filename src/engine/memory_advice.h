#pragma once

#include <string>

#include "engine/bound_pipeline.h"
#include "engine/device_steps.h"

namespace slipstream {

/// Returns the remedy for insufficient memory if nothing more is known, as a sentence.
std::string plain_remedy();

/// Returns which batch size would fit instead of `plan`, as text. Runs small batches to measure it
/// and trains nothing. Waits for the device. Throws DeviceLost.
std::string memory_advice(const BoundPipeline& bound, DeviceSteps& steps, const Plan& plan);

}  // namespace slipstream
