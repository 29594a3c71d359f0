#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace slipstream {

/// Reads until `to` is full or the file ends, asking for at most `most` bytes at once: how many
/// came. Nothing, and errno, where reading failed.
std::optional<std::size_t> read_at(int descriptor, std::uint64_t offset, std::span<std::byte> to,
                                   std::size_t most = SIZE_MAX);

/// Writes all of `bytes`: 0, or the errno of what failed.
int write_at(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace slipstream
