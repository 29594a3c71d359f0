#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace slipstream {

/// Reads big-endian numbers, the byte order of most image headers.
/// REQUIRES: the number is inside `bytes`
inline std::uint32_t u8_at(std::span<const std::byte> bytes, std::size_t at) {
  return std::to_integer<std::uint32_t>(bytes[at]);
}
inline std::uint32_t u16_at(std::span<const std::byte> bytes, std::size_t at) {
  return u8_at(bytes, at) << 8 | u8_at(bytes, at + 1);
}
inline std::uint32_t u32_at(std::span<const std::byte> bytes, std::size_t at) {
  return u16_at(bytes, at) << 16 | u16_at(bytes, at + 2);
}

/// Reads little-endian numbers.
/// REQUIRES: the number is inside `bytes`
inline std::uint32_t u16_le_at(std::span<const std::byte> bytes, std::size_t at) {
  return u8_at(bytes, at + 1) << 8 | u8_at(bytes, at);
}
inline std::uint32_t u32_le_at(std::span<const std::byte> bytes, std::size_t at) {
  return u16_le_at(bytes, at + 2) << 16 | u16_le_at(bytes, at);
}

}  // namespace slipstream
