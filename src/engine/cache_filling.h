#pragma once

#include <string>
#include <vector>

#include "engine/device_feed.h"
#include "engine/device_steps.h"

namespace slipstream {

/// The batches that stand in for everything up to a step on the device: the first `cut.items` from
/// `first_batch` on, with every field that the steps up to there gave. Waits for the device, and
/// ends the loader of `feed`. `doing`: as of run_frozen().
std::vector<Fields> fill_cache(const BoundPipeline& bound, DeviceSteps& device_steps,
                               DeviceFeed& feed, const Plan& plan, const Cut& cut,
                               std::uint64_t first_batch, std::string& doing);

}  // namespace slipstream
