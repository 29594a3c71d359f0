#pragma once

#include <string>

#include "slipstream/array.h"

namespace slipstream {

/// What is wrong with the form of a field of boxes, which is f32, N x 4; empty for other fields.
std::string problem_of_boxes(const FieldSpec& field);

}  // namespace slipstream
