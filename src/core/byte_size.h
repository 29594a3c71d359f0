#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace slipstream {

/// Parses a size such as "512", "8G", "8GB" or "8GiB" to bytes; K, M, G and T are powers of 1024.
/// Returns nothing if it is invalid.
std::optional<std::size_t> size_in(std::string size);

}  // namespace slipstream
