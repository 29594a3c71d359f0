#pragma once

#include <cstddef>
#include <vector>

#include "slipstream/engine/pipeline.h"

namespace slipstream {

/// Returns the number of transforms, counted from the last, that a GPU applies if the first of them
/// is the one that first_on_device() selects. The batches come from a loader with `options`, whose
/// on_device and batch_ops are ignored. Throws Refused as first_on_device() does.
std::size_t transforms_on_device(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                                 const DataLoaderOptions& options);

/// Returns placed_plan() for evaluation, which has no random transforms. If that leaves none that
/// the device can apply, the loader's threads apply all. `loader.on_device` is ignored.
/// `of_training`: the mode of the training's plan; the mode "graph" becomes "pipelined".
Plan evaluation_plan(const Pipeline& pipeline, const std::string& of_training,
                     const std::string& transforms_device, DeviceKind device, LoaderPlan loader,
                     const Plan::Numerics& numerics);

}  // namespace slipstream
