#pragma once

#include <exception>
#include <string>

#include "engine/bound_pipeline.h"
#include "engine/device_steps.h"

namespace slipstream {

/// Throws what ended a run as a DeviceLost or an Error that begins with `where`, once the device is
/// idle; out of device memory with what would fit. An Error has what was caught nested in it. No
/// gradient is left.
[[noreturn]] void throw_failure(const BoundPipeline& bound, DeviceSteps& steps, const Plan& plan,
                                const std::string& where, const std::exception_ptr& error);

}  // namespace slipstream
