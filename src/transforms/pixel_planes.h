#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "slipstream/transforms/pixel.h"

namespace slipstream {

constexpr std::size_t kPlaneLength = 512;

/// Some pixels, channel by channel: loops over them are vectorized.
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

  /// Each pixel becomes change(pixel).
  template <typename Change>
  void change(std::size_t count, const Change& change) {
    for (std::size_t i = 0; i < count; ++i) {
      const Pixel<C> changed = change(pixel(i));
      for (int c = 0; c < C; ++c) value[c][i] = changed.value[c];
    }
  }
};

/// read(planes, count) for all pixels, some at a time.
template <int C, typename From, typename Read>
void read_planes(const From* from, std::size_t pixels, const Read& read) {
  Planes<C> planes;
  for (std::size_t at = 0; at < pixels; at += kPlaneLength) {
    const std::size_t count = std::min(kPlaneLength, pixels - at);
    planes.load(from + at * C, count);
    read(planes, count);
  }
}

/// change(planes, count) for all pixels, some at a time, between reading and writing them; `from`
/// may be `to`.
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
