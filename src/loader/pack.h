#pragma once

#include <cstddef>
#include <cstdint>

#include "core/packed_field.h"

namespace slipstream {

/// Packs `count` class numbers below 2^bits, starting with the lowest bit of a byte. `bits` is 1, 2
/// or 4.
template <typename T>
void pack_bits(const T* values, std::size_t count, unsigned bits, std::byte* to) {
  const std::size_t of_a_byte = 8 / bits;
  for (std::size_t first = 0; first < count; first += of_a_byte) {
    unsigned byte = 0;
    const std::size_t end = first + of_a_byte < count ? of_a_byte : count - first;
    for (std::size_t i = 0; i < end; ++i) {
      byte |= static_cast<unsigned>(values[first + i]) << (i * bits);
    }
    *to++ = static_cast<std::byte>(byte);
  }
}

void pack_bf16(const float* values, std::size_t count, std::byte* to);
void pack_f16(const float* values, std::size_t count, std::byte* to);

}  // namespace slipstream
