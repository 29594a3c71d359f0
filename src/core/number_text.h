#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace slipstream {

/// Formats a count with its noun: "1 step", "2 steps", "3 batches", "4 classes".
std::string format_count(std::uint64_t count, std::string_view thing);

/// Formats `value` with at most `digits` significant digits: "0.1235", "1.2e-30", "inf", "nan".
std::string rounded_text(double value, int digits);

/// Formats a size with three significant digits: "1 byte", "1.5 KiB", "256 MiB". Returns "-" if it
/// is negative or not finite.
std::string size_text(double bytes);

/// Formats `value` with the fewest digits that parse back to the same value: "0.1", "1e-30", "inf",
/// "nan".
std::string number_text(double value);

/// Parses `text` as a number. Returns nothing if it is anything else.
std::optional<double> number_in(const std::string& text);

/// Parses "NAME=SIZE". A size is a number of bytes, or of K, M, G or T (powers of 1024), which may
/// be followed by B or iB. Throws Refused for anything else, with a message that begins with
/// `option`, if any.
std::pair<std::string, std::size_t> named_size(const std::string& option, const std::string& text);

}  // namespace slipstream
