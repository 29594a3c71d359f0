#pragma once

#include <optional>
#include <string>
#include <vector>

#include "slipstream/transforms/op.h"

namespace slipstream {

/// Returns what is wrong with the value ranges of images in `chain`, or no value. Finds
/// convert_color with an offset for levels (0 to 255) after to_dtype, divide or normalize has
/// changed the range.
std::optional<std::string> problem_of_units(const std::vector<NamedOp>& chain);

}  // namespace slipstream
