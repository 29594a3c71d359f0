#pragma once

#include "cuda/cuda.h"
#include "transforms/mix.h"

namespace slipstream::cuda {

/// Does what mix() does on the device, with the same bits, in one kernel. All pointers of `batch`
/// are device memory. Asynchronous on `stream`.
void mix_async(const MixForm& form, const MixBatch& batch, StreamView stream);

}  // namespace slipstream::cuda
