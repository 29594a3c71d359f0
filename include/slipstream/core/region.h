#pragma once

#include <cstdint>

namespace slipstream {

/// A rectangle of an image, in pixels from its upper left corner.
struct Region {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const Region&) const = default;
};

/// What an array holds of an image: the pixels of `region`, shrunk to 1 / reduction of its height
/// and width, rounded up.
struct Window {
  Region region;               ///< top and left are multiples of `reduction`
  std::int64_t reduction = 1;  ///< 1: as they are
  bool operator==(const Window&) const = default;
};

}  // namespace slipstream
