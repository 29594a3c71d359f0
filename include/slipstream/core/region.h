#pragma once

#include <cstdint>

namespace slipstream {

/// Height and width in pixels, in this order. A single number is the side of a square.
struct Size {
  std::int64_t height = 0;
  std::int64_t width = 0;

  constexpr Size() = default;
  constexpr Size(std::int64_t side) : height(side), width(side) {}
  constexpr Size(std::int64_t rows, std::int64_t columns) : height(rows), width(columns) {}
  bool operator==(const Size&) const = default;
};

/// A rectangle of an image, in pixels from its upper left corner.
struct Region {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const Region&) const = default;
};

/// The part of an image that an array holds: the pixels of `region`, downscaled to 1 / reduction of
/// its height and width, rounded up.
struct Window {
  Region region;               ///< top and left are multiples of `reduction`
  std::int64_t reduction = 1;  ///< at least 1; 1 means full resolution
  bool operator==(const Window&) const = default;
};

}  // namespace slipstream
