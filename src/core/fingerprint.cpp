#include "core/fingerprint.h"

#include <bit>
#include <cstring>

namespace slipstream {

// Words are loaded with memcpy(), and the digest is defined over little-endian words.
static_assert(std::endian::native == std::endian::little);

std::uint64_t fingerprint(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const unsigned char*>(data);
  std::uint64_t digest = mix64(~static_cast<std::uint64_t>(bytes));
  std::uint64_t offset = 0;
  const auto add = [&](std::size_t count) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, count);
    offset += kSplitMixStep;
    digest += mix64(word + offset);
    from += count;
  };
  for (std::size_t i = 0; i < bytes / 8; ++i) add(8);
  if (bytes % 8 != 0) add(bytes % 8);
  return digest;
}

std::string to_hex(std::uint64_t digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 0; i < 16; ++i) text[15 - i] = kDigits[(digest >> (4 * i)) & 15];
  return text;
}

}  // namespace slipstream
