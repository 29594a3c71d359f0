#pragma once

#include <cstdint>

namespace slipstream {

struct AffineMap;  // boxes.h

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

/// A crop that was drawn for an image of height x width, of which an array holds 1 / reduction of
/// each side, rounded up.
struct DrawnCrop {
  Region region;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t reduction = 1;

  /// The part of `region` that lies in the image.
  Region inside() const;
  /// By how much `region` may be shrunk, in whole numbers, and still have that many pixels a side;
  /// at least 1.
  std::int64_t reduction_to(std::int64_t to_height, std::int64_t to_width) const;
  /// The same crop of what is left of the image when only `window` is there.
  DrawnCrop within(const Window& window) const;
  /// Where pixels of the image lie when `region` is resized.
  AffineMap resized_to(std::int64_t to_height, std::int64_t to_width) const;
};

}  // namespace slipstream
