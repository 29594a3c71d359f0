#pragma once

#include <cstddef>
#include <vector>

#include "slipstream/engine/pipeline.h"

namespace slipstream {

/// How many transforms, counted from the last, a GPU applies where it applies those that
/// first_on_device names, to batches of a loader with `options`, whose on_device and batch_ops are
/// ignored. Throws Refused as that does.
std::size_t transforms_on_device(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                                 const DataLoaderOptions& options);

/// Returns placed_plan() for evaluation, which has no random transforms. If that leaves none that
/// the device can apply, the loader's threads apply all. `loader.on_device` is ignored.
Plan evaluation_plan(const Pipeline& pipeline, const std::string& mode,
                     const std::string& transforms_device, DeviceKind device, LoaderPlan loader,
                     const Plan::Numerics& numerics);

}  // namespace slipstream
