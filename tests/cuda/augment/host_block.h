#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>

// Defines CUDA's built-in names for device code, so that kernels run on the host. The threads of a
// block are fibers of one host thread, which take turns whenever they wait for each other. Include
// this before headers with device code.
namespace slipstream::test {

/// Runs `threads` threads, which may wait for each other, with this amount of dynamic shared
/// memory. Throws std::logic_error if threads of a warp wait in different places, if some have
/// ended while others of the warp wait for them, or if memory beyond the shared memory was written
/// to.
void run_block(unsigned threads, std::size_t shared_bytes, const std::function<void()>& thread);

void wait_for_block();
void wait_for_warp();
/// Returns the value of thread `lane` of the warp. All threads of the warp must call this.
std::int64_t value_of_lane(std::int64_t mine, unsigned lane);

}  // namespace slipstream::test

#undef __shared__
#define __shared__ thread_local

inline uint3 threadIdx;
inline uint3 blockIdx;
inline dim3 blockDim;

inline void __syncthreads() { slipstream::test::wait_for_block(); }
inline void __syncwarp() { slipstream::test::wait_for_warp(); }

template <typename T>
T __shfl_sync(unsigned, T mine, int lane) {
  return static_cast<T>(slipstream::test::value_of_lane(mine, static_cast<unsigned>(lane)));
}

template <typename T>
T __shfl_down_sync(unsigned, T mine, int apart) {
  const unsigned lane = threadIdx.x % 32 + static_cast<unsigned>(apart);
  const std::int64_t value = slipstream::test::value_of_lane(mine, lane % 32);
  return lane < 32 ? static_cast<T>(value) : mine;
}

inline std::uint32_t __funnelshift_r(std::uint32_t low, std::uint32_t high, std::uint32_t shift) {
  const std::uint64_t both = std::uint64_t{high} << 32 | low;
  return static_cast<std::uint32_t>(both >> (shift % 32));
}

inline std::int32_t __float_as_int(float value) { return std::bit_cast<std::int32_t>(value); }
inline std::uint32_t __float_as_uint(float value) { return std::bit_cast<std::uint32_t>(value); }
/// Accepts any float: threads also convert values that they do not store.
inline std::uint32_t __float2uint_rz(float value) {
  return value > 0 ? static_cast<std::uint32_t>(std::min(value, 4294967040.0f)) : 0;
}
inline float __int_as_float(std::int32_t value) { return std::bit_cast<float>(value); }

inline unsigned long long atomicAdd(unsigned long long* to, unsigned long long value) {
  *to += value;
  return *to - value;
}

inline std::uint32_t atomicAdd(std::uint32_t* to, std::uint32_t value) {
  *to += value;
  return *to - value;
}

inline std::uint32_t atomicMax(std::uint32_t* to, std::uint32_t value) {
  const std::uint32_t before = *to;
  *to = std::max(before, value);
  return before;
}

inline std::int32_t min(std::int32_t a, std::int32_t b) { return a < b ? a : b; }
inline std::int32_t max(std::int32_t a, std::int32_t b) { return a > b ? a : b; }
