#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slipstream {

/// "1 step", "2 steps", "3 batches", "4 classes".
std::string format_count(std::uint64_t count, std::string_view thing);

/// With at most so many significant digits: "0.1235", "1.2e-30", "inf", "nan".
std::string rounded_text(double value, int digits);

/// "1 byte", "1.5 KiB", "256 MiB": three significant digits; "-" unless finite and no less
/// than 0.
std::string size_text(double bytes);

/// The fewest digits that read back as `value`: "0.1", "1e-30", "inf", "nan".
std::string number_text(double value);

}  // namespace slipstream
