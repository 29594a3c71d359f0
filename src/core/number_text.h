#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace slipstream {

/// "1 step", "2 steps", "3 batches".
std::string count_of(std::uint64_t count, std::string_view thing);

/// The fewest digits that read back as `value`: "0.1", "1e-30", "inf", "nan".
std::string number_text(double value);

}  // namespace slipstream
