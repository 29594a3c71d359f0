#pragma once

#include <cuda_runtime_api.h>

namespace slipstream::cuda {

/// Ignores a failure in a destructor, which cannot throw. Either an earlier call failed and was
/// reported, or the runtime is being unloaded. Clears the error, so that it does not surface at the
/// next, unrelated call.
inline void ignore_failure(cudaError_t status) noexcept {
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace slipstream::cuda
