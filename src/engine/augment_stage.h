#pragma once

#include "slipstream/engine/stage.h"
#include "slipstream/loader/data_loader.h"
#include "transforms/device_chain.h"

namespace slipstream {

/// Returns the stage that applies layout.device_chain to every field that it changes: on a GPU by
/// kernels on the current stream, on a CPU operation by operation. Images become batch x channels x
/// height x width, channels-last in memory. Throws Refused as AugmentPlan does, if `on_gpu`.
FrozenStage augment_stage(const SlabLayout& layout, bool on_gpu);

}  // namespace slipstream
