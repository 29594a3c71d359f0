#pragma once

#include <cstdint>

#include "slipstream/core/array.h"

// Boxes of objects in an image are an array: float32, N x 4. A row is x1, y1, x2, y2 in pixels from
// the image's upper left corner. Pixel i of a row of pixels reaches from i to i + 1, so the box of
// the whole image is 0, 0, width, height. A row without an area (x2 <= x1 or y2 <= y1) is no box: a
// sample with fewer than N boxes has such rows at the end.
namespace slipstream {

/// How an operation moves the points of an image: from x, y to xx x + xy y + dx, yx x + yy y + dy
/// of an image of height x width pixels.
struct AffineMap {
  double xx = 1, xy = 0, dx = 0;
  double yx = 0, yy = 1, dy = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// Writes the moved boxes of `in` to `out`. A moved box is the one around the moved corners,
/// clipped to the image; it is computed in double precision and rounded once. A row that is no box,
/// or has no area left, becomes 0, 0, 0, 0. Every box keeps its row. `in` and `out` have the same
/// shape and may be the same array. Throws Error where they are not float32, N x 4.
void move_boxes(const AffineMap& map, const ConstArray& in, const MutableArray& out);

}  // namespace slipstream
