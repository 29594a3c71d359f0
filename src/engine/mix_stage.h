#pragma once

#include "slipstream/engine/stage.h"
#include "slipstream/loader/data_loader.h"
#include "transforms/batch_chain.h"

namespace slipstream {

/// Returns the stage that applies layout.batch_chain to a batch, on the batch's device. Images stay
/// batch x channels x height x width (channels-last); the label becomes float32, batch x classes.
FrozenStage mix_stage(const SlabLayout& layout);

}  // namespace slipstream
