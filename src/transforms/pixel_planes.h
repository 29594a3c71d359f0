#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "slipstream/transforms/pixel.h"

namespace slipstream {

constexpr std::size_t kPlaneLength = 512;

/// A block of pixels with separate channels, so that the compiler can vectorize loops over pixels.
/// The block is small enough for the L1 cache.
template <int C>
struct Planes {
  alignas(64) float value[C][kPlaneLength];

  template <typename T>
  void load(const T* __restrict from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      for (int c = 0; c < C; ++c) value[c][i] = static_cast<float>(from[i * C + c]);
    }
  }

  void store(std::uint8_t* __restrict to, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      for (int c = 0; c < C; ++c) {
        to[i * C + c] = static_cast<std::uint8_t>(static_cast<std::int32_t>(value[c][i]));
      }
    }
  }

  void store(float* __restrict to, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      for (int c = 0; c < C; ++c) to[i * C + c] = value[c][i];
    }
  }

  Pixel<C> pixel(std::size_t i) const {
    Pixel<C> out;
    for (int c = 0; c < C; ++c) out.value[c] = value[c][i];
    return out;
  }

  /// Replaces each pixel with change(pixel).
  template <typename Change>
  void change(std::size_t count, const Change& change) {
    for (std::size_t i = 0; i < count; ++i) {
      const Pixel<C> changed = change(pixel(i));
      for (int c = 0; c < C; ++c) value[c][i] = changed.value[c];
    }
  }
};

/// Calls read(planes, count) for consecutive blocks of all pixels.
template <int C, typename From, typename Read>
void read_planes(const From* from, std::size_t pixels, const Read& read) {
  Planes<C> planes;
  for (std::size_t at = 0; at < pixels; at += kPlaneLength) {
    const std::size_t count = std::min(kPlaneLength, pixels - at);
    planes.load(from + at * C, count);
    read(planes, count);
  }
}

/// For consecutive blocks of all pixels: loads the block, calls change(planes, count), and stores
/// it. `from` may equal `to`.
template <int C, typename From, typename To, typename Change>
void change_planes(const From* from, To* to, std::size_t pixels, const Change& change) {
  Planes<C> planes;
  for (std::size_t at = 0; at < pixels; at += kPlaneLength) {
    const std::size_t count = std::min(kPlaneLength, pixels - at);
    planes.load(from + at * C, count);
    change(planes, count);
    planes.store(to + at * C, count);
  }
}

}  // namespace slipstream
