#include "core/fingerprint.h"

#include <algorithm>
#include <cstdint>

#include "cuda/cuda.h"
#include "cuda/warp.h"

namespace slipstream::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 4;
constexpr std::uint64_t kMostBlocksPerMultiprocessor = 8;

struct Memory {
  const void* data;
  std::uint64_t vector_count;
  const unsigned char* tail;
  int tail_bytes;
  std::uint64_t bytes;
};

/// Loads the 16 bytes at `index` from memory that is aligned only to a Unit.
template <typename Unit>
__device__ ulonglong2 vector_at(const Memory& memory, std::uint64_t index) {
  constexpr int kUnits = sizeof(std::uint64_t) / sizeof(Unit);
  const Unit* from = static_cast<const Unit*>(memory.data) + 2 * kUnits * index;
  ulonglong2 vector{0, 0};
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    vector.x |= static_cast<unsigned long long>(__ldg(from + i)) << (8 * sizeof(Unit) * i);
    vector.y |= static_cast<unsigned long long>(__ldg(from + kUnits + i)) << (8 * sizeof(Unit) * i);
  }
  return vector;
}

template <>
__device__ ulonglong2 vector_at<ulonglong2>(const Memory& memory, std::uint64_t index) {
  return __ldg(static_cast<const ulonglong2*>(memory.data) + index);
}

__device__ std::uint64_t compute_digest(ulonglong2 vector, std::uint64_t index) {
  const std::uint64_t offset = (2 * index + 1) * kSplitMixStep;
  return mix64(vector.x + offset) + mix64(vector.y + offset + kSplitMixStep);
}

__device__ std::uint64_t digest_of_tail(const Memory& memory) {
  std::uint64_t digest = mix64(~memory.bytes);
  std::uint64_t offset = 2 * memory.vector_count * kSplitMixStep;
  for (int first = 0; first < memory.tail_bytes; first += 8) {
    std::uint64_t word = 0;
    const int count = min(8, memory.tail_bytes - first);
    for (int i = 0; i < count; ++i) {
      word |= static_cast<std::uint64_t>(memory.tail[first + i]) << (8 * i);
    }
    offset += kSplitMixStep;
    digest += mix64(word + offset);
  }
  return digest;
}

template <typename Unit>
__global__ void __launch_bounds__(kThreads)
    fingerprint_kernel(Memory memory, unsigned long long* digest) {
  const std::uint64_t stride = std::uint64_t{gridDim.x} * kThreads;
  std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  // One thread adds the last bytes and the length.
  std::uint64_t sum = i == 0 ? digest_of_tail(memory) : 0;
  for (; i + (kUnroll - 1) * stride < memory.vector_count; i += kUnroll * stride) {
    // All loads first, so that several are in flight at once.
    ulonglong2 vectors[kUnroll];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) vectors[k] = vector_at<Unit>(memory, i + k * stride);
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) sum += compute_digest(vectors[k], i + k * stride);
  }
  for (; i < memory.vector_count; i += stride) sum += compute_digest(vector_at<Unit>(memory, i), i);
  sum = block_sum<kThreads>(sum);
  // Integer addition is associative, so the order of the atomics does not change the digest.
  if (threadIdx.x == 0) atomicAdd(digest, static_cast<unsigned long long>(sum));
}

std::uint64_t multiprocessors() {
  int device = 0;
  int count = 0;
  check_cuda(cudaGetDevice(&device));
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return static_cast<std::uint64_t>(count);
}

using Kernel = void (*)(Memory, unsigned long long*);

Kernel kernel_for(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address % sizeof(ulonglong2) == 0) return fingerprint_kernel<ulonglong2>;
  if (address % sizeof(unsigned long long) == 0) return fingerprint_kernel<unsigned long long>;
  if (address % sizeof(unsigned) == 0) return fingerprint_kernel<unsigned>;
  if (address % sizeof(unsigned short) == 0) return fingerprint_kernel<unsigned short>;
  return fingerprint_kernel<unsigned char>;
}

}  // namespace

void fingerprint_async(const void* data, std::size_t bytes, std::uint64_t* digest,
                       StreamView stream) {
  Memory memory{};
  memory.data = data;
  memory.vector_count = bytes / sizeof(ulonglong2);
  memory.tail = static_cast<const unsigned char*>(data) + memory.vector_count * sizeof(ulonglong2);
  memory.tail_bytes = static_cast<int>(bytes % sizeof(ulonglong2));
  memory.bytes = bytes;
  const std::uint64_t wanted =
      (memory.vector_count + kThreads * kUnroll - 1) / (kThreads * kUnroll);
  const std::uint64_t blocks =
      std::clamp<std::uint64_t>(wanted, 1, multiprocessors() * kMostBlocksPerMultiprocessor);
  const Kernel kernel = kernel_for(data);
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream.get()>>>(
      memory, reinterpret_cast<unsigned long long*>(digest));
  check_cuda(cudaGetLastError());
}

}  // namespace slipstream::cuda
