#pragma once

#include "slipstream/engine/stage.h"
#include "slipstream/loader/data_loader.h"
#include "transforms/device_chain.h"

namespace slipstream {

/// The stage that does layout.device_chain to every field that it touches: on a GPU by kernels on
/// the current stream, on a CPU operation by operation; images become batch x channels x height x
/// width (channels-last). Throws Refused as AugmentPlan does, for a GPU.
FrozenStage augment_stage(const SlabLayout& layout, bool on_gpu);

}  // namespace slipstream
