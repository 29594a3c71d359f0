#pragma once

#include <string>

#include "slipstream/core/array.h"

namespace slipstream {

/// Returns true if an array with this dtype and shape can hold a sample's boxes: float32, N x 4.
bool has_form_of_boxes(DType dtype, const Shape& shape);
/// Returns what is wrong with the dtype or shape of a field of boxes. Empty for other fields.
std::string problem_of_boxes(const FieldSpec& field);

}  // namespace slipstream
