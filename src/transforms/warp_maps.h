#pragma once

#include <string_view>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

/// Throws UnfitSample unless pixel indices and coordinates of an image of `shape` fit into 32 bits.
/// `op` is the operation's name in messages.
void require_countable(std::string_view op, const Shape& shape);
/// Throws Refused unless the interpolation is nearest or bilinear.
void require_two_by_two(std::string_view op, Interpolation interpolation);
/// Returns the warp of an image of `shape` that rotates it counterclockwise around its center.
DrawnWarp rotation(double degrees, const Shape& shape);

}  // namespace slipstream
