#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/half.h"
#include "core/round_up.h"

namespace slipstream {

/// Storage type of a value, little-endian. u1, u2 and u4 fill each byte from its lowest bits
/// upward, and each sample begins at a byte boundary.
enum class Element : std::uint8_t { u1, u2, u4, u8, u16, i32, i64, bf16, f16, f32 };

constexpr unsigned bits_per_element(Element element) {
  switch (element) {
    case Element::u1:
      return 1;
    case Element::u2:
      return 2;
    case Element::u4:
      return 4;
    case Element::u8:
      return 8;
    case Element::u16:
    case Element::bf16:
    case Element::f16:
      return 16;
    case Element::i32:
    case Element::f32:
      return 32;
    case Element::i64:
      break;
  }
  return 64;
}

/// One field of a batch that is expanded on the device inside one block of memory: from
/// `from_offset_bytes` (samples `from_sample_bytes` apart) to `to_offset_bytes` (samples without
/// gaps). Both offsets are multiples of 256.
struct PackedField {
  Element from = Element::u8;
  /// Valid conversions: u8 from u1, u2 and u4; i32 and i64 from u16 and i32; f32 from bf16 and f16.
  /// With `classes`: u8, i32, i64 and f32 from u8 and u16.
  Element to = Element::u8;
  /// If not 0, each value v (below `classes`) becomes a one-hot vector of `classes` values: 1 at
  /// index v and 0 elsewhere.
  std::uint32_t classes = 0;
  std::size_t samples = 0;
  std::size_t values = 0;  ///< packed values per sample
  std::size_t from_offset_bytes = 0;
  std::size_t from_sample_bytes = 0;
  std::size_t to_offset_bytes = 0;

  constexpr std::size_t outputs() const { return samples * values * (classes == 0 ? 1 : classes); }
  /// Size of the output, rounded up to a multiple of 256 because kernels write whole vectors.
  constexpr std::size_t to_bytes() const {
    return round_up(outputs() * bits_per_element(to) / 8, 256);
  }
};

/// Expands `fields` inside `block` (host memory) on the calling thread. The memory ranges that are
/// written must not overlap each other or any range that is read.
void unpack(std::span<const PackedField> fields, std::byte* block);

/// Converts the bits of one packed value to the bits of the expanded value.
constexpr std::uint64_t expanded(Element from, Element to, std::uint64_t bits) {
  if (to != Element::f32) return bits;
  const auto half = static_cast<std::uint16_t>(bits);
  return std::bit_cast<std::uint32_t>(from == Element::bf16 ? from_bf16(half) : from_f16(half));
}

/// The bit pattern of 1 in the storage type `to`.
constexpr std::uint64_t encoded_one(Element to) {
  return to == Element::f32 ? std::bit_cast<std::uint32_t>(1.0F) : 1;
}

}  // namespace slipstream
