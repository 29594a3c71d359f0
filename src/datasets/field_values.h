#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "slipstream/core/array.h"

namespace slipstream {

// Fields that data sets have in common.

FieldSpec image_field();
FieldSpec label_field(std::int64_t classes);
/// `name`: "label", as in segmentation_folder(), or another where there is a class label too.
FieldSpec mask_field(const std::string& name, std::int64_t classes);

/// A mask's pixels are bytes.
inline constexpr std::int64_t kMostMaskClasses = 256;
/// Adds a problem unless `classes` is 1 to 256, or 0 for any. `option` names it.
void check_mask_classes(const std::string& option, std::int64_t classes,
                        std::vector<std::string>& problems);

/// What is wrong with a value of a field of so many classes: "field 'label' holds class 7, but
/// there are 3 classes, 0 to 2".
std::string class_problem(const FieldSpec& field, std::int64_t value);

void set_label(Field& field, std::int64_t label);

/// Throws Error unless the two encoded fields have one height and width, by their headers.
/// `describe_field(kind)` names the image or the mask; it is called only then.
void check_same_size(const Field& image, const Field& mask,
                     const std::function<std::string(FieldKind)>& describe_field);

}  // namespace slipstream
