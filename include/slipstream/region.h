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

/// A crop that was drawn for an image of height x width.
struct DrawnCrop {
  Region region;
  std::int64_t height = 0;
  std::int64_t width = 0;

  /// The part of `region` that lies in the image.
  Region inside() const;
  /// The same crop of what is left of the image when only `part` of it is there.
  DrawnCrop within(const Region& part) const;
};

}  // namespace slipstream
