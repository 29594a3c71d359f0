#pragma once

#include "slipstream/engine/stage.h"
#include "slipstream/loader/data_loader.h"
#include "transforms/batch_chain.h"

namespace slipstream {

/// The stage that does layout.batch_chain to a batch, on its device: images stay batch x channels x
/// height x width (channels-last), the label becomes float32, batch x classes.
FrozenStage mix_stage(const SlabLayout& layout);

}  // namespace slipstream
