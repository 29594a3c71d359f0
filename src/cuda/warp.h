#pragma once

namespace slipstream::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

/// Returns the sum over the lanes of a warp, in a fixed order; valid in lane 0.
template <typename T>
__device__ T warp_sum(T value) {
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    value += __shfl_down_sync(kAllLanes, value, offset);
  }
  return value;
}

/// Returns the sum over a block of kThreads threads, in a fixed order; valid in thread 0. A kernel
/// may call it only once per type and kThreads, because the calls share memory without a barrier
/// between them.
template <int kThreads, typename T>
__device__ T block_sum(T value) {
  constexpr int kWarps = kThreads / kWarpSize;
  static_assert(kWarps <= kWarpSize);
  __shared__ T sums[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  value = warp_sum(value);
  if (lane == 0) sums[warp] = value;
  __syncthreads();
  if (warp != 0) return T{};
  return warp_sum(lane < kWarps ? sums[lane] : T{});
}

}  // namespace slipstream::cuda
