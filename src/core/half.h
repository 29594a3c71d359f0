#pragma once

#include <bit>
#include <cstdint>

namespace slipstream {

// Conversions of 16-bit floating-point numbers, computed with integers so that every processor and
// GPU gives the same bits. Conversions to 16 bits round to nearest, ties to even (IEEE 754). NaN
// becomes a quiet NaN with the upper bits of its payload.

constexpr std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  // Adding just under half a unit, plus the last kept bit, carries exactly if round-to-nearest-even
  // rounds up.
  const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>((is_nan ? bits | 0x400000U : rounded) >> 16);
}

constexpr float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// Rounds to IEEE binary16; values that round to more than 65,504 become infinity.
constexpr std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U)
    return static_cast<std::uint16_t>(sign | 0x7e00U | (magnitude >> 13 & 0x1ffU));
  if (magnitude >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  // At least 2^-14: normal numbers; a carry into the exponent gives infinity.
  if (magnitude >= 0x38800000U) {
    const std::uint32_t rounded = magnitude + 0xfffU + (magnitude >> 13 & 1U);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
  }
  if (magnitude < 0x33000000U) return static_cast<std::uint16_t>(sign);  // below 2^-25
  // Subnormal results have no implicit leading bit: the significand with its leading bit is shifted
  // to units of 2^-24 and rounded by hand.
  const std::uint32_t shift = 126U - (magnitude >> 23);
  const std::uint32_t whole = (magnitude & 0x7fffffU) | 0x800000U;
  const std::uint32_t kept = whole >> shift;
  const std::uint32_t half = 1U << (shift - 1);
  const std::uint32_t rest = whole & (2 * half - 1);
  return static_cast<std::uint16_t>(sign | (kept + (rest > half || (rest == half && kept % 2))));
}

constexpr float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {
    // fraction * 2^-24, exactly
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 0xffU : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

}  // namespace slipstream
