#pragma once

#include <cuda_pipeline_primitives.h>

#include "cuda/cross_entropy_device.h"

namespace slipstream::cuda {

/// Consecutive pixels of dense channels-last logits in shared memory, owned by one warp, which
/// copies them 16 bytes at a time. Padded tiles skip 16 bytes after every 128, so that at most four
/// threads access one bank for any number of classes; exact ones need no padding (see load()).
template <typename T, int kMax, bool kExact>
class Tile {
 public:
  static constexpr int kPixels = kWarpSize;
  static constexpr int kVectorBytes = 16;

  static constexpr int bytes(int classes) {
    const int vectors = kPixels * classes * static_cast<int>(sizeof(T)) / kVectorBytes;
    return slot(vectors) * kVectorBytes + kVectorBytes;
  }

  __device__ Tile(unsigned char* memory, int classes) : memory_(memory), classes_(classes) {}

  __device__ void fetch(const T* from, int pixels, int lane) {
    const auto* bytes_from = reinterpret_cast<const unsigned char*>(from);
    for_each(
        pixels, lane,
        [&](int v) {
          __pipeline_memcpy_async(vector(v), bytes_from + v * kVectorBytes, kVectorBytes);
        },
        [&](int i) { *element(i) = from[i]; });
    __pipeline_commit();
  }

  __device__ void await() {
    __pipeline_wait_prior(0);
    __syncwarp();
  }

  __device__ void flush(T* to, int pixels, int lane) {
    __syncwarp();
    auto* bytes_to = reinterpret_cast<unsigned char*>(to);
    for_each(
        pixels, lane,
        [&](int v) {
          *reinterpret_cast<uint4*>(bytes_to + v * kVectorBytes) =
              *reinterpret_cast<const uint4*>(vector(v));
        },
        [&](int i) { to[i] = *element(i); });
    // The next fetch() overwrites memory that other threads of the warp may still read.
    __syncwarp();
  }

  __device__ void load(int pixel, float (&x)[kMax]) {
    if constexpr (kExact) {
#pragma unroll
      for (int c = 0; c < kMax; c += kChunk) {
        const Chunk chunk = *reinterpret_cast<const Chunk*>(element(pixel * kMax + c));
#pragma unroll
        for (int k = 0; k < kChunk; ++k) x[c + k] = to_float(chunk.values[k]);
      }
    } else {
#pragma unroll
      for (int c = 0; c < kMax; ++c) {
        if (c < classes_) x[c] = to_float(*element(pixel * classes_ + c));
      }
    }
  }

  __device__ void put(int pixel, const float (&x)[kMax]) {
    if constexpr (kExact) {
#pragma unroll
      for (int c = 0; c < kMax; c += kChunk) {
        Chunk chunk;
#pragma unroll
        for (int k = 0; k < kChunk; ++k) store(&chunk.values[k], x[c + k]);
        *reinterpret_cast<Chunk*>(element(pixel * kMax + c)) = chunk;
      }
    } else {
#pragma unroll
      for (int c = 0; c < kMax; ++c) {
        if (c < classes_) store(element(pixel * classes_ + c), x[c]);
      }
    }
  }

 private:
  // The largest power of two that divides a pixel's bytes. A pixel then has an odd number of
  // chunks, which keeps the threads of a warp on different banks.
  static constexpr int kPixelBytes = kMax * static_cast<int>(sizeof(T));
  static constexpr int kChunkBytes = kPixelBytes & -kPixelBytes;
  static constexpr int kChunk = kChunkBytes / static_cast<int>(sizeof(T));
  static_assert(!kExact || kChunkBytes <= kVectorBytes);
  struct alignas(kChunkBytes <= kVectorBytes ? kChunkBytes : kVectorBytes) Chunk {
    T values[kChunk];
  };

  static constexpr __host__ __device__ int slot(int vector) {
    return kExact ? vector : vector + vector / 8;
  }
  __device__ unsigned char* vector(int v) { return memory_ + slot(v) * kVectorBytes; }
  __device__ T* element(int i) {
    const int byte = i * static_cast<int>(sizeof(T));
    return reinterpret_cast<T*>(vector(byte / kVectorBytes) + byte % kVectorBytes);
  }

  template <typename Whole, typename Single>
  __device__ void for_each(int pixels, int lane, Whole whole, Single single) {
    const int elements = pixels * (kExact ? kMax : classes_);
    if (pixels == kPixels) {
      const int vectors = elements * static_cast<int>(sizeof(T)) / kVectorBytes;
      for (int v = lane; v < vectors; v += kWarpSize) whole(v);
    } else {
#pragma unroll 1
      for (int i = lane; i < elements; i += kWarpSize) single(i);
    }
  }

  unsigned char* memory_;
  int classes_;
};

}  // namespace slipstream::cuda
