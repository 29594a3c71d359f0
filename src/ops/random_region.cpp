#include "ops/random_region.h"

#include <cmath>
#include <string>

#include "core/number_text.h"
#include "ops/elementary.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr int kTries = 10;
constexpr double kMaxRatio = 1000;

std::int64_t place(RandomStream& stream, std::int64_t side, std::int64_t part) {
  return stream.below(static_cast<std::uint32_t>(side - part + 1));
}

std::optional<Region> try_once(const RegionBounds& bounds, RandomStream& stream,
                               const Shape& shape) {
  const double uniform_scale = stream.uniform();
  const double uniform_ratio = stream.uniform();
  const double whole = static_cast<double>(shape[0]) * static_cast<double>(shape[1]);
  const double area =
      whole * (bounds.scale_min + uniform_scale * (bounds.scale_max - bounds.scale_min));
  const double low = exact_log(bounds.ratio_min);
  const double ratio = exact_exp(low + uniform_ratio * (exact_log(bounds.ratio_max) - low));
  const std::int64_t width = rounded_side(std::sqrt(area * ratio));
  const std::int64_t height = rounded_side(std::sqrt(area / ratio));
  if (width < 1 || width > shape[1] || height < 1 || height > shape[0]) return std::nullopt;
  const std::int64_t top = place(stream, shape[0], height);
  const std::int64_t left = place(stream, shape[1], width);
  return Region{top, left, height, width};
}

std::string text_of(double low, double high) {
  return number_text(low) + " to " + number_text(high);
}

}  // namespace

std::int64_t rounded_side(double x) { return static_cast<std::int64_t>(std::floor(x + 0.5)); }

void require_bounds(std::string_view op, const RegionBounds& bounds) {
  std::vector<std::string> problems;
  if (!(bounds.scale_min > 0 && bounds.scale_min <= bounds.scale_max && bounds.scale_max <= 1))
    problems.push_back(std::string(op) + ": the scale is " +
                       text_of(bounds.scale_min, bounds.scale_max) +
                       "; it must be above 0 and at most 1, scale_min at most scale_max");
  if (!(bounds.ratio_min >= 1 / kMaxRatio && bounds.ratio_min <= bounds.ratio_max &&
        bounds.ratio_max <= kMaxRatio))
    problems.push_back(std::string(op) + ": the ratio is " +
                       text_of(bounds.ratio_min, bounds.ratio_max) +
                       "; it must be 0.001 to 1000, ratio_min at most ratio_max");
  refuse(problems);
}

std::optional<Region> draw_region(const RegionBounds& bounds, RandomStream& stream,
                                  const Shape& shape) {
  for (int i = 0; i < kTries; ++i) {
    if (const auto region = try_once(bounds, stream, shape)) return region;
  }
  return std::nullopt;
}

}  // namespace slipstream
