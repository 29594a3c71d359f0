#include <cstdint>

#include "cuda/cuda.h"

namespace slipstream::cuda {
namespace {

constexpr double kLongestUs = 10e6;
// No GPU runs at more than 4 GHz. This limit ends the kernel even if %globaltimer does not advance.
constexpr long long kMostCyclesPerNs = 4;

__device__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void delay_kernel(unsigned long long duration_ns) {
  const unsigned long long start = nanoseconds();
  const long long start_cycle = clock64();
  const long long most_cycles = static_cast<long long>(duration_ns) * kMostCyclesPerNs;
  while (nanoseconds() - start < duration_ns && clock64() - start_cycle < most_cycles) {
    __nanosleep(100);
  }
}

}  // namespace

void delay_async(double microseconds, StreamView stream) {
  ensure(microseconds >= 0 && microseconds <= kLongestUs, "a delay lasts between 0 and 10 s");
  delay_kernel<<<1, 1, 0, stream.get()>>>(static_cast<unsigned long long>(microseconds * 1e3));
  check_cuda(cudaGetLastError());
}

}  // namespace slipstream::cuda
