#pragma once

#include <cuda_runtime_api.h>

#include "cuda/augment/launch_shape.h"
#include "cuda/augment/pass_memory.h"
#include "cuda/augment/program.h"

namespace slipstream::augment {

Way choose_way(const PassProgram& pass);
/// Limits of shared memory, per block and per multiprocessor.
struct DeviceLimits {
  std::size_t block_bytes;
  std::size_t processor_bytes;
};
DeviceLimits device_limits();  ///< for the current device

LaunchShape launch_shape(const PassProgram& pass, std::int32_t channels, std::uint32_t drawn_bytes,
                         const DeviceLimits& limits);

/// Launches the computation of the tables of Statistics for `step`, which has_table(). Asynchronous
/// on `stream`.
void launch_tables(const ProgramStep& step, const PassMemory& memory, std::int32_t channels,
                   cudaStream_t stream);

/// Launches a pass for masks whose values have `value_bytes` bytes. Asynchronous on `stream`.
void launch_masks(const PassProgram& pass, const PassMemory& memory, std::size_t batch_size,
                  std::size_t value_bytes, cudaStream_t stream);

}  // namespace slipstream::augment
