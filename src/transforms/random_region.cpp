#include "transforms/random_region.h"

#include <cmath>
#include <string>

#include "core/number_text.h"
#include "slipstream/core/error.h"
#include "transforms/elementary.h"

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
      whole * (bounds.scale[0] + uniform_scale * (bounds.scale[1] - bounds.scale[0]));
  const double low = exact_log(bounds.ratio[0]);
  const double ratio = exact_exp(low + uniform_ratio * (exact_log(bounds.ratio[1]) - low));
  const std::int64_t first = rounded_side(std::sqrt(area * ratio));
  const std::int64_t second = rounded_side(std::sqrt(area / ratio));
  const bool is_width_first = bounds.ratio_kind == Ratio::width_to_height;
  const std::int64_t width = is_width_first ? first : second;
  const std::int64_t height = is_width_first ? second : first;
  if (width < 1 || width > shape[1] || height < 1 || height > shape[0]) return std::nullopt;
  const std::int64_t top = place(stream, shape[0], height);
  const std::int64_t left = place(stream, shape[1], width);
  return Region{top, left, height, width};
}

std::string to_text(const std::array<double, 2>& range) {
  return number_text(range[0]) + " to " + number_text(range[1]);
}

}  // namespace

std::int64_t rounded_side(double x) { return static_cast<std::int64_t>(std::floor(x + 0.5)); }

void require_bounds(std::string_view op, const RegionBounds& bounds) {
  std::vector<std::string> problems;
  const auto& [scale, ratio, ratio_kind] = bounds;
  if (!(scale[0] > 0 && scale[0] <= scale[1] && scale[1] <= 1))
    problems.push_back(std::string(op) + ": the scale is " + to_text(scale) +
                       "; it must be above 0 and at most 1, the first at most the second");
  if (!(ratio[0] >= 1 / kMaxRatio && ratio[0] <= ratio[1] && ratio[1] <= kMaxRatio))
    problems.push_back(std::string(op) + ": the ratio is " + to_text(ratio) +
                       "; it must be 0.001 to 1000, the first at most the second");
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
