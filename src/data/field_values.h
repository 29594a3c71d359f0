#pragma once

#include <cstdint>
#include <string>

#include "slipstream/array.h"

namespace slipstream {

// Fields that data sets have in common.

FieldSpec image_field();
FieldSpec label_field(std::int64_t classes);
/// `name`: "label", as in segmentation_folder(), or another where there is a class label too.
FieldSpec mask_field(const std::string& name, std::int64_t classes);

void set_label(Field& field, std::int64_t label);

/// Throws Error naming both files unless the two encoded fields have one height and width, by their
/// headers.
void check_same_size(const Field& image, const std::string& image_name, const Field& mask,
                     const std::string& mask_name);

}  // namespace slipstream
