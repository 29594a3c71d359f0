#pragma once

#include "core/half.h"
#include "cuda/augment/launch_shape.h"
#include "cuda/augment/pass_memory.h"
#include "cuda/augment/program.h"
#include "slipstream/transforms/pixel.h"

// Device code: stores the pixels of a pass, several adjacent values in one instruction.
namespace slipstream::augment {

template <int kBytes>
struct Word;
template <>
struct Word<4> {
  using type = std::uint32_t;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<16> {
  using type = uint4;
};

template <typename T>
__device__ __forceinline__ T stored_as(float value) {
  if constexpr (sizeof(T) == 1) return static_cast<T>(__float2uint_rz(value));
  if constexpr (sizeof(T) == 2) return to_bf16(value);
  if constexpr (sizeof(T) == 4) return __float_as_uint(value);
}

template <typename T>
using FourWide = typename Word<4 * sizeof(T)>::type;

template <typename T>
__device__ __forceinline__ FourWide<T> make_four(float a, float b, float c, float d) {
  union {
    T values[4];
    FourWide<T> word;
  } all = {{stored_as<T>(a), stored_as<T>(b), stored_as<T>(c), stored_as<T>(d)}};
  return all.word;
}

/// Returns values 4 i to 4 i + 3 of four pixels with interleaved channels.
template <typename T, int C>
__device__ __forceinline__ FourWide<T> interleaved(const Pixel<C> (&run)[4], int i) {
  const auto value = [&](int k) { return run[(4 * i + k) / C].value[(4 * i + k) % C]; };
  return make_four<T>(value(0), value(1), value(2), value(3));
}

template <int C, typename T>
__device__ __forceinline__ void store_pixel(const PassProgram& pass, bool is_planar, T* image,
                                            std::int32_t y, std::int32_t x, const Pixel<C>& pixel) {
  const std::int32_t plane = pass.out_height * pass.out_width;
  const std::int32_t place = y * pass.out_width + x;
  for (int c = 0; c < C; ++c) {
    image[is_planar ? c * plane + place : place * C + c] = stored_as<T>(pixel.value[c]);
  }
}

/// Stores four adjacent pixels, as far as they are inside the image.
template <int C, typename T>
__device__ __forceinline__ void store_run(const PassProgram& pass, bool is_planar, T* image,
                                          std::int32_t y, std::int32_t x,
                                          const Pixel<C> (&run)[4]) {
  const std::int32_t place = y * pass.out_width + x;
  const std::int32_t plane = pass.out_height * pass.out_width;
  if (pass.out_width % 4 != 0) {
    for (int k = 0; k < 4 && x + k < pass.out_width; ++k) {
      store_pixel<C>(pass, is_planar, image, y, x + k, run[k]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < C; ++i) {
    if (is_planar) {
      *reinterpret_cast<FourWide<T>*>(image + i * plane + place) =
          make_four<T>(run[0].value[i], run[1].value[i], run[2].value[i], run[3].value[i]);
    } else {
      reinterpret_cast<FourWide<T>*>(image + place * C)[i] = interleaved<T>(run, i);
    }
  }
}

/// Stores runs of four pixels. Called by a whole warp. A thread's pixels are pieces of C words;
/// exchanging them through `shared` lets every instruction write adjacent words. If the pass draws
/// a mask, the exchange costs more than it saves.
template <int C, typename T>
__device__ __forceinline__ void store_runs(const PassProgram& pass, bool is_planar, T* image,
                                           std::int32_t y, std::int32_t x, bool is_mine,
                                           const Pixel<C> (&run)[4], std::byte* shared) {
  const bool is_masked = pass.mask >= 0 && pass.stencil == pass.count;
  if (C == 1 || is_planar || is_masked || pass.out_width % 4 != 0) {
    if (is_mine) store_run<C, T>(pass, is_planar, image, y, x, run);
    return;
  }
  auto* words = reinterpret_cast<FourWide<T>*>(shared);
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < C; ++i) words[lane * C + i] = interleaved<T>(run, i);
  __syncwarp();
  const std::int32_t mine = is_mine ? y * pass.out_width + x : -1;
#pragma unroll
  for (int i = 0; i < C; ++i) {
    const std::int32_t word = lane + 32 * i;
    const std::int32_t place = __shfl_sync(~0U, mine, word / C);
    if (place >= 0) reinterpret_cast<FourWide<T>*>(image + place * C)[word % C] = words[word];
  }
  __syncwarp();
}

/// Stores four adjacent patches, whose first pixel is (top, left); a thread has the pixel at its
/// position in each. Called by a whole warp. The pixels are exchanged through `shared`, so that an
/// instruction writes whole words.
template <int C, typename T>
__device__ __forceinline__ void store_patches(const PassProgram& pass, bool is_planar, T* image,
                                              std::int32_t top, std::int32_t left,
                                              const Pixel<C> (&four)[4], std::byte* shared) {
  constexpr std::int32_t kWords = kPatchesWidth * C / 4;  // words of a row
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const std::int32_t row = lane / kPatchWidth;
  const std::int32_t column = lane % kPatchWidth;
  if (pass.out_width % 4 != 0) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const std::int32_t x = left + column + k * kPatchWidth;
      const bool is_mine = top + row < pass.out_height && x < pass.out_width;
      if (is_mine) store_pixel<C>(pass, is_planar, image, top + row, x, four[k]);
    }
    return;
  }
  const std::int32_t of_pixel = is_planar ? 1 : C;
  const std::int32_t plane = pass.out_height * pass.out_width;
  T* const values = reinterpret_cast<T*>(shared);
#pragma unroll
  for (int i = 0; i < 4 * C; ++i) {
    const std::int32_t at = (column + i / C * kPatchWidth) * of_pixel;
    values[row * patches_pitch(C) + at + i % C * (is_planar ? kPatchesWidth : 1)] =
        stored_as<T>(four[i / C].value[i % C]);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kPatchHeight * kWords; i += 32) {
    const std::int32_t y = (lane + i) / kWords;
    const std::int32_t at = (lane + i) % kWords * 4;
    const std::int32_t channel = is_planar ? at / kPatchesWidth : 0;
    // Index in the row of the image.
    const std::int32_t value = left * of_pixel + at - channel * kPatchesWidth;
    if (top + y >= pass.out_height || value >= pass.out_width * of_pixel) continue;
    *reinterpret_cast<FourWide<T>*>(image + channel * plane +
                                    (top + y) * pass.out_width * of_pixel + value) =
        *reinterpret_cast<const FourWide<T>*>(values + y * patches_pitch(C) + at);
  }
  __syncwarp();
}

/// Stores N pixels per thread from adjacent columns, the first at (y, x). Called by a whole warp.
/// Interleaved channels are exchanged through `shared`, so that an instruction writes whole words.
template <int C, typename T, int N>
__device__ __forceinline__ void store_columns(const PassProgram& pass, bool is_planar, T* image,
                                              std::int32_t y, std::int32_t x,
                                              const Pixel<C> (&column)[N], std::byte* shared) {
  constexpr int kRowsAtOnce = 4;
  constexpr int kWordsOfRow = 32 / 4 * C;
  const bool by_words = C > 1 && !is_planar && pass.out_width % 4 == 0;
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const std::int32_t mine = by_words ? x - lane + lane / C * 4 : x;
  const std::int32_t rows = mine < pass.out_width ? pass.out_height - y : 0;
  const auto is_stored = [&](int k) {
    return k < (pass.out_height % N == 0 ? min(rows, 1) * N : rows);
  };
  if (!by_words) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      if (is_stored(k)) store_pixel<C>(pass, is_planar, image, y + k, x, column[k]);
    }
    return;
  }
  auto* values = reinterpret_cast<T*>(shared) + lane * C;
  const auto* words = reinterpret_cast<const FourWide<T>*>(shared) + lane;
  T* const to = image + (y * pass.out_width + x - lane) * C + 4 * lane;
#pragma unroll
  for (int first = 0; first < N; first += kRowsAtOnce) {
#pragma unroll
    for (int i = 0; i < kRowsAtOnce * C; ++i) {
      values[i / C * 32 * C + i % C] = stored_as<T>(column[first + i / C].value[i % C]);
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (lane >= kWordsOfRow || !is_stored(first + k)) continue;
      *reinterpret_cast<FourWide<T>*>(to + (first + k) * pass.out_width * C) =
          words[k * kWordsOfRow];
    }
    __syncwarp();
  }
}

/// Calls store(to), where `to` points to the first value of an image, with the type that is stored.
template <int C, typename Store>
__device__ __forceinline__ void store_in(const PassProgram& pass, const PassMemory& memory,
                                         std::int64_t image, const Store& store) {
  const std::int64_t first = image * (C * static_cast<std::int64_t>(pass.out_height)) *
                             static_cast<std::int64_t>(pass.out_width);
  switch (memory.stored) {
    case Stored::u8:
      return store(reinterpret_cast<std::uint8_t*>(memory.to) + first);
    case Stored::bf16:
      return store(reinterpret_cast<std::uint16_t*>(memory.to) + first);
    case Stored::f32:
      return store(reinterpret_cast<std::uint32_t*>(memory.to) + first);
  }
}

/// Stores pixels (y, x) to (y, x + 3), x a multiple of 4, of the threads for which `is_mine`.
/// Called by a whole warp. `shared` is the block's, with store_bytes() per warp.
template <int C>
__device__ __forceinline__ void store_runs(const PassProgram& pass, const PassMemory& memory,
                                           std::int64_t image, std::int32_t y, std::int32_t x,
                                           bool is_mine, const Pixel<C> (&run)[4],
                                           std::byte* shared) {
  shared += threadIdx.x / 32 * store_bytes(C);
  store_in<C>(pass, memory, image, [&](auto* to) {
    store_runs<C>(pass, memory.is_planar, to, y, x, is_mine, run, shared);
  });
}

/// Like store_patches() above. `shared` has patches_bytes() per warp.
template <int C>
__device__ __forceinline__ void store_patches(const PassProgram& pass, const PassMemory& memory,
                                              std::int64_t image, std::int32_t top,
                                              std::int32_t left, const Pixel<C> (&four)[4],
                                              std::byte* shared) {
  shared += threadIdx.x / 32 * patches_bytes(C);
  store_in<C>(pass, memory, image, [&](auto* to) {
    store_patches<C>(pass, memory.is_planar, to, top, left, four, shared);
  });
}

/// Stores the pixels from (y, x) downward. Called by a whole warp; x minus the thread's lane is a
/// multiple of 32. `shared` is the block's, with store_bytes() per warp.
template <int C, int N>
__device__ __forceinline__ void store_columns(const PassProgram& pass, const PassMemory& memory,
                                              std::int64_t image, std::int32_t y, std::int32_t x,
                                              const Pixel<C> (&column)[N], std::byte* shared) {
  shared += threadIdx.x / 32 * store_bytes(C);
  store_in<C>(pass, memory, image, [&](auto* to) {
    store_columns<C>(pass, memory.is_planar, to, y, x, column, shared);
  });
}

}  // namespace slipstream::augment
