#pragma once

#include <cstddef>

namespace slipstream {

/// Returns the smallest multiple of `of` that is at least `bytes`.
/// REQUIRES: of > 0
constexpr std::size_t round_up(std::size_t bytes, std::size_t of) {
  return (bytes + of - 1) / of * of;
}

}  // namespace slipstream
