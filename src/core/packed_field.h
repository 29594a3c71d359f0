#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/half.h"
#include "core/round_up.h"

namespace slipstream {

/// How a value is stored. u1, u2 and u4 fill bytes from the lowest bit on; each sample begins at a
/// byte. All little-endian.
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

/// One field of a batch that is expanded on the device, within one block of memory: from
/// `from_offset_bytes` on (samples `from_sample_bytes` apart) to `to_offset_bytes` on (samples
/// without a gap). Both offsets are multiples of 256.
struct PackedField {
  Element from = Element::u8;
  /// Element::u8 from u1, u2 and u4; i32 and i64 from u16 and i32; f32 from bf16 and f16; with
  /// `classes` u8, i32, i64 and f32 from u8 and u16.
  Element to = Element::u8;
  /// 0, or: each value, below `classes`, becomes that many, 1 at its place and 0 elsewhere.
  std::uint32_t classes = 0;
  std::size_t samples = 0;
  std::size_t values = 0;  ///< packed ones, a sample
  std::size_t from_offset_bytes = 0;
  std::size_t from_sample_bytes = 0;
  std::size_t to_offset_bytes = 0;

  constexpr std::size_t outputs() const { return samples * values * (classes == 0 ? 1 : classes); }
  /// Up to the next multiple of 256, for kernels write whole vectors.
  constexpr std::size_t to_bytes() const {
    return round_up(outputs() * bits_per_element(to) / 8, 256);
  }
};

/// Expands `fields` within `block` on the calling thread. The ranges of memory that are written
/// must not overlap any other.
void unpack(std::span<const PackedField> fields, std::byte* block);

/// One packed value, from its bits to those of what it becomes.
constexpr std::uint64_t expanded(Element from, Element to, std::uint64_t bits) {
  if (to != Element::f32) return bits;
  const auto half = static_cast<std::uint16_t>(bits);
  return std::bit_cast<std::uint32_t>(from == Element::bf16 ? from_bf16(half) : from_f16(half));
}

/// 1 as `to` stores it.
constexpr std::uint64_t encoded_one(Element to) {
  return to == Element::f32 ? std::bit_cast<std::uint32_t>(1.0F) : 1;
}

}  // namespace slipstream
