#pragma once

#include <exception>
#include <string>

#include "engine/bound_pipeline.h"
#include "engine/device_steps.h"

namespace slipstream {

/// Throws the error that ended a run, as a DeviceLost or as an Error that begins with `where`,
/// after waiting for the device. If the device ran out of memory, the message states what would
/// fit. The caught exception is nested in the Error. All gradients are removed.
[[noreturn]] void throw_failure(const BoundPipeline& bound, DeviceSteps& steps, const Plan& plan,
                                const std::string& where, const std::exception_ptr& error);

}  // namespace slipstream
