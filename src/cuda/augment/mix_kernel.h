#pragma once

#include "cuda/cuda.h"
#include "transforms/mix.h"

namespace slipstream::cuda {

/// mix() on the device: the same bits, by one kernel. All pointers of `batch` are to device memory.
/// Asynchronous on `stream`.
void mix_async(const MixForm& form, const MixBatch& batch, StreamView stream);

}  // namespace slipstream::cuda
