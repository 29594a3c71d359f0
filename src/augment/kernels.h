#pragma once

#include <cuda_runtime_api.h>

#include "augment/launch_shape.h"
#include "augment/pass_memory.h"
#include "augment/program.h"

namespace slipstream::augment {

Way way_of(const PassProgram& pass);
/// Shared memory.
struct DeviceLimits {
  std::size_t block_bytes;
  std::size_t processor_bytes;
};
DeviceLimits device_limits();  ///< of the current device

LaunchShape launch_shape(const PassProgram& pass, std::int32_t channels, std::uint32_t drawn_bytes,
                         const DeviceLimits& limits);

/// A pass over images of C channels, 1 to 4, by kernels that take any pass.
template <int C>
void launch_images(const PassProgram& pass, const PassMemory& memory, const LaunchShape& shape,
                   cudaStream_t stream);
/// Adds the terms of every image, of 1 or 3 channels, for the contrast of step `at` to
/// `memory.sums`.
template <int C>
void launch_sums(const PassProgram& pass, const PassMemory& memory, std::int32_t at,
                 cudaStream_t stream);
/// Masks whose values take so many bytes.
void launch_masks(const PassProgram& pass, const PassMemory& memory, std::size_t batch_size,
                  std::size_t value_bytes, cudaStream_t stream);

}  // namespace slipstream::augment
