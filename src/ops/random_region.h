#pragma once

#include <optional>
#include <string_view>

#include "slipstream/core/array.h"
#include "slipstream/core/philox.h"
#include "slipstream/core/region.h"

namespace slipstream {

/// What regions of random area and ratio may be, as RandomResizedCrop documents them.
struct RegionBounds {
  double scale_min;
  double scale_max;
  double ratio_min;
  double ratio_max;
};

/// Throws Refused for bounds that make no sense; `op` is the operation's name in messages.
void require_bounds(std::string_view op, const RegionBounds& bounds);

/// The first of ten tries that fits in an image of `shape`, or nothing.
std::optional<Region> draw_region(const RegionBounds& bounds, RandomStream& stream,
                                  const Shape& shape);

/// The nearest whole number, halves up.
std::int64_t rounded_side(double x);

}  // namespace slipstream
