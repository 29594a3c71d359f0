#pragma once

#include <cuda_runtime_api.h>

namespace slipstream::cuda {

/// For destructors, which cannot throw: what failed here failed before, and was reported then, or
/// the runtime is unloading. The error must not surface at the next, unrelated call.
inline void ignore_failure(cudaError_t status) noexcept {
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace slipstream::cuda
