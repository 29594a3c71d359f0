#pragma once

#include <cstdint>

namespace slipstream {

/// Height and width in pixels, in this order. One number is the side of a square.
struct Size {
  std::int64_t height = 0;
  std::int64_t width = 0;

  constexpr Size() = default;
  constexpr Size(std::int64_t side) : height(side), width(side) {}
  constexpr Size(std::int64_t rows, std::int64_t columns) : height(rows), width(columns) {}
  bool operator==(const Size&) const = default;
};

}  // namespace slipstream
