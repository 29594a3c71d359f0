#pragma once

#include <cstddef>

namespace slipstream {

/// The smallest multiple of `of`, which is above 0, that is at least `bytes`.
constexpr std::size_t round_up(std::size_t bytes, std::size_t of) {
  return (bytes + of - 1) / of * of;
}

}  // namespace slipstream
