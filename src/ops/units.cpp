#include "ops/units.h"

#include <algorithm>
#include <cmath>

#include "slipstream/colour.h"
#include "slipstream/transforms.h"

namespace slipstream {
namespace {

/// Images of 0 to 1 do not need an offset beyond that.
bool is_for_levels(const ConvertColour& convert) {
  return std::any_of(convert.offset.begin(), convert.offset.end(),
                     [](double value) { return std::abs(value) > 1; });
}

/// What says itself which units it makes.
bool sets_units(const AnyOp& op) {
  return op.get_if<Scale>() != nullptr || op.get_if<Normalise>() != nullptr ||
         op.get_if<ConvertColour>() != nullptr;
}

}  // namespace

std::optional<std::string> problem_of_units(const std::vector<NamedOp>& chain) {
  std::string to_float;
  for (const NamedOp& each : chain) {
    const auto* convert = each.op.get_if<ConvertColour>();
    if (convert != nullptr && !to_float.empty() && is_for_levels(*convert))
      return "transform '" + each.name +
             "' (convert_colour): its offset is for levels of 0 to 255, but '" + to_float +
             "' has made the images 0 to 1; put it ahead of that, or divide the offset by 255 (0, "
             "0.501961, 0.501961 for YCbCr)";
    if (each.op.get_if<ToFloat>() != nullptr)
      to_float = each.name;
    else if (sets_units(each.op))
      to_float.clear();
  }
  return std::nullopt;
}

}  // namespace slipstream
