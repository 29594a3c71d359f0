#pragma once

#include <string>
#include <vector>

#include "engine/device_feed.h"
#include "engine/device_steps.h"

namespace slipstream {

/// Makes the batches that replace all steps up to a step on the device: the first `cut.items`
/// batches, starting with `first_batch`, with every field that those steps set. Waits for the
/// device, and stops the loader of `feed`. `doing` is used as in run_frozen().
std::vector<Fields> fill_cache(const BoundPipeline& bound, DeviceSteps& device_steps,
                               DeviceFeed& feed, const Plan& plan, const Cut& cut,
                               std::uint64_t first_batch, std::string& doing);

}  // namespace slipstream
