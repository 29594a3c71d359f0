#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "slipstream/core/array.h"
#include "slipstream/core/philox.h"
#include "slipstream/core/region.h"

namespace slipstream {

enum class Ratio : std::uint8_t { width_to_height, height_to_width };

/// What regions of random area and ratio may be, as RandomResizedCrop and RandomErasing document
/// them.
struct RegionBounds {
  std::array<double, 2> scale;
  std::array<double, 2> ratio;
  Ratio ratio_kind;
};

/// Throws Refused for bounds that make no sense; `op` is the operation's name in messages.
void require_bounds(std::string_view op, const RegionBounds& bounds);

/// The first of ten tries that fits in an image of `shape`, or nothing.
std::optional<Region> draw_region(const RegionBounds& bounds, RandomStream& stream,
                                  const Shape& shape);

/// The nearest whole number, halves up.
std::int64_t rounded_side(double x);

}  // namespace slipstream
