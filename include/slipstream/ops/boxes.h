#pragma once

#include <cstdint>

#include "slipstream/core/array.h"

// Boxes of objects in an image: f32, N x 4, each x1, y1, x2, y2 in pixels from the image's upper
// left corner (pixel i of a row reaches from i to i + 1, so a box of the whole image is 0, 0,
// width, height). One without an area (x2 <= x1 or y2 <= y1) is no box: that is how a sample that
// has fewer than N fills up.
namespace slipstream {

/// Where an operation moves the point x, y of an image: to xx x + xy y + dx, yx x + yy y + dy of an
/// image of height x width pixels.
struct AffineMap {
  double xx = 1, xy = 0, dx = 0;
  double yx = 0, yy = 1, dy = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// The boxes around the moved corners, cut to the image: computed in double precision, rounded
/// once. What is no box, or has no area left, becomes 0, 0, 0, 0. `in` and `out` are boxes of one
/// shape, and may be the same; each keeps its row. Throws Error where they are not f32, N x 4.
void move_boxes(const AffineMap& map, const ConstArray& in, const MutableArray& out);

}  // namespace slipstream
