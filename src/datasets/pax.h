#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace slipstream {

/// A number of a tar header: octal digits between blanks (none: 0), or big-endian binary marked by
/// the first bit. Nothing for anything else, negative numbers, and those over 2^63 - 1.
std::optional<std::uint64_t> tar_number(std::span<const std::byte> field);

/// Digits alone, at most 2^63 - 1.
std::optional<std::uint64_t> decimal_number(std::string_view text);

struct PaxRecord {
  std::string_view key;
  std::string_view value;
};

/// Takes "LENGTH KEY=VALUE\n" off the front of `text`; nothing if there is no such thing.
std::optional<PaxRecord> next_pax_record(std::string_view& text);

}  // namespace slipstream
