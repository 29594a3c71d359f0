#pragma once

#include <string>

#include "slipstream/core/array.h"

namespace slipstream {

/// Whether an array of that form holds a sample's boxes: float32, N x 4.
bool has_form_of_boxes(DType dtype, const Shape& shape);
/// What is wrong with the form of a field of boxes; empty for other fields.
std::string problem_of_boxes(const FieldSpec& field);

}  // namespace slipstream
