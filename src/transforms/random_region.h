#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "slipstream/core/array.h"
#include "slipstream/core/philox.h"
#include "slipstream/core/region.h"

namespace slipstream {

enum class Ratio : std::uint8_t { width_to_height, height_to_width };

/// Bounds for regions of random area and ratio, as documented by RandomResizedCrop and
/// RandomErasing.
struct RegionBounds {
  std::array<double, 2> scale;
  std::array<double, 2> ratio;
  Ratio ratio_kind;
};

/// Throws Refused for invalid bounds. `op` is the operation's name in messages.
void require_bounds(std::string_view op, const RegionBounds& bounds);

/// Returns the first of up to ten attempts that fits in an image of `shape`, or no value.
std::optional<Region> draw_region(const RegionBounds& bounds, RandomStream& stream,
                                  const Shape& shape);

/// Rounds to the nearest integer, ties up.
std::int64_t rounded_side(double x);

}  // namespace slipstream
