#pragma once

#include <optional>
#include <string>
#include <vector>

#include "slipstream/transforms/op.h"

namespace slipstream {

/// What is wrong with the units of images on their way through `chain`: convert_color with an
/// offset for levels (0 to 255) where to_dtype, divide or normalize has made them small. Nothing
/// where all is well.
std::optional<std::string> problem_of_units(const std::vector<NamedOp>& chain);

}  // namespace slipstream
