#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace slipstream {

/// Parses a number of a tar header: octal digits between blanks (0 if there are none), or a
/// big-endian binary number marked by the first bit. Returns no value for anything else, negative
/// numbers, and numbers above 2^63 - 1.
std::optional<std::uint64_t> tar_number(std::span<const std::byte> field);

/// Parses a number that consists of decimal digits only and is at most 2^63 - 1.
std::optional<std::uint64_t> decimal_number(std::string_view text);

struct PaxRecord {
  std::string_view key;
  std::string_view value;
};

/// Removes a record "LENGTH KEY=VALUE\n" from the front of `text`. Returns no value if there is
/// none.
std::optional<PaxRecord> next_pax_record(std::string_view& text);

}  // namespace slipstream
