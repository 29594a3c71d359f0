#pragma once

#include <string>

#include "engine/bound_pipeline.h"
#include "engine/device_steps.h"

namespace slipstream {

/// What to do about too little memory where nothing more is known, as a sentence.
std::string plain_remedy();

/// What fits instead of `plan`, in words. Runs small batches to find out; trains nothing. Waits for
/// the device. Throws DeviceLost.
std::string memory_advice(const BoundPipeline& bound, DeviceSteps& steps, const Plan& plan);

}  // namespace slipstream
