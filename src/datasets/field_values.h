#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "slipstream/core/array.h"

namespace slipstream {

// Helpers for fields that several data sets have.

FieldSpec image_field();
FieldSpec label_field(std::int64_t classes);
/// Returns a mask field. `name` is "label", as in segmentation_folder(), or another name if there
/// is a class label too.
FieldSpec mask_field(const std::string& name, std::int64_t classes);

/// Limited by the pixels of a mask, which are bytes.
inline constexpr std::int64_t kMostMaskClasses = 256;
/// Appends a problem unless `classes` is 1 to 256, or 0 for unknown. `option` is its name in the
/// message.
void check_mask_classes(const std::string& option, std::int64_t classes,
                        std::vector<std::string>& problems);

/// Describes an invalid value of a field with classes: "field 'label' holds class 7, but there are
/// 3 classes, 0 to 2".
std::string class_problem(const FieldSpec& field, std::int64_t value);

void set_label(Field& field, std::int64_t label);

/// Throws Error unless the headers of the two encoded fields give the same height and width.
/// `describe_field(kind)` names the image or the mask; it is called only for an error.
void check_same_size(const Field& image, const Field& mask,
                     const std::function<std::string(FieldKind)>& describe_field);

}  // namespace slipstream
