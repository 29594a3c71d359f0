#include "transforms/units.h"

#include <algorithm>
#include <cmath>

#include "core/number_text.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/transforms.h"

namespace slipstream {
namespace {

constexpr double kLevels = 255;
/// Images whose values do not exceed this are no longer in levels.
constexpr double kMostOfUnits = 16;

/// Magnitude of an image's values at one point of a chain.
struct ValueScale {
  double most = kLevels;
  bool are_bytes = true;
  std::string maker;  ///< the transform that reduced them; "" while they are levels
};

/// Largest magnitude after `normalize`, which divides uint8 levels by 255 first.
double most_after(const Normalize& normalize, const ValueScale& extent) {
  const double most = extent.are_bytes ? extent.most / kLevels : extent.most;
  double after = 0;
  for (std::size_t c = 0; c < normalize.channels(); ++c) {
    const double mean = normalize.channel_mean(c), spread = std::abs(normalize.channel_std(c));
    after = std::max(after, std::max(std::abs(mean), std::abs(most - mean)) / spread);
  }
  return after;
}

void change(ValueScale& extent, const NamedOp& each) {
  const auto* divide = each.op.get_if<Divide>();
  const auto* normalize = each.op.get_if<Normalize>();
  const auto* to_dtype = each.op.get_if<ToDtype>();
  if (to_dtype != nullptr && !extent.are_bytes) return;
  if (to_dtype != nullptr)
    extent.most = to_dtype->scale ? 1 : kLevels;
  else if (divide != nullptr)
    extent.most /= std::abs(divide->divisor);
  else if (normalize != nullptr)
    extent.most = most_after(*normalize, extent);
  else if (each.op.get_if<ConvertColor>() != nullptr)
    extent.most = kLevels;  // its offset determines the units of its output
  else
    return;
  extent.are_bytes = false;
  const bool is_small = extent.most <= kMostOfUnits;
  extent.maker = is_small ? each.name : "";
}

/// Returns true if the offset is too large for images with values of this magnitude.
bool is_for_levels(const ConvertColor& convert, const ValueScale& extent) {
  const double most = extent.most == 1 ? 1 : kMostOfUnits;
  return std::any_of(convert.offset.begin(), convert.offset.end(),
                     [&](double value) { return std::abs(value) > most; });
}

}  // namespace

std::optional<std::string> problem_of_units(const std::vector<NamedOp>& chain) {
  ValueScale extent;
  for (const NamedOp& each : chain) {
    const auto* convert = each.op.get_if<ConvertColor>();
    if (convert != nullptr && !extent.maker.empty() && is_for_levels(*convert, extent)) {
      const bool is_unit = extent.most == 1;
      return "transform '" + each.name +
             "' (convert_color): its offset is for levels of 0 to 255, but '" + extent.maker +
             "' has made the images " +
             (is_unit ? "0 to 1" : "at most " + rounded_text(extent.most, 3)) +
             "; put it before that, or " +
             (is_unit ? "divide the offset by 255 (0, 0.501961, 0.501961 for YCbCr)"
                      : "give an offset in the same unit");
    }
    change(extent, each);
  }
  return std::nullopt;
}

}  // namespace slipstream
