#pragma once

#include <string>
#include <vector>

#include "slipstream/plan/plan.h"
#include "slipstream/run/pipeline.h"

namespace slipstream {

/// The first transform from which on the device can do all, where fields travel in `wire`; of
/// images that differ in size rather a random resized crop or what stands behind such a transform,
/// for others make samples that are smaller to copy and to cache. For LoaderPlan::on_device. Throws
/// Refused, saying why, where the device cannot do even the last.
std::string first_on_device(const Pipeline& pipeline, const WireFormats& wire = {});
/// The same, but "" where nothing is gained by it.
std::string first_worth_doing_on_device(const Pipeline& pipeline, const WireFormats& wire = {});

/// Where a pipeline's transforms are done: "cpu" (on loader threads), "gpu" (on the device, on the
/// lane of the stage behind them) or "pipelined" (on the device, on a lane of their own). The
/// operations over batches share the transforms' lane; with "cpu" they have one of their own.
const std::vector<std::string>& placements();
/// Throws Refused for any other.
void check_placement(const std::string& placement);

/// make_plan for `pipeline`, with its transforms at `placement`: on the device from
/// `loader.on_device` on or, where that is empty, from first_on_device. The steps of a serial plan
/// share one lane, so there "gpu" and "pipelined" are one. Throws Refused as make_plan and
/// first_on_device do, and for another placement.
Plan placed_plan(const Pipeline& pipeline, const std::string& mode, const std::string& placement,
                 DeviceKind device, LoaderPlan loader, const Plan::Numerics& numerics);

}  // namespace slipstream
