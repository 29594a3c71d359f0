#include "datasets/field_values.h"

#include "core/number_text.h"
#include "slipstream/codecs/image.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using NameOf = std::function<std::string(FieldKind)>;

Shape encoded_shape(const Field& field, FieldKind kind, const NameOf& describe_field) {
  const ConstArray file = field.array.view();
  try {
    return image_shape(as_bytes(file));
  } catch (const Error& error) {
    throw Error("'" + describe_field(kind) + "': " + error.what());
  }
}

std::string width_and_height(const Shape& shape) {
  return std::to_string(shape[1]) + " x " + std::to_string(shape[0]);
}

}  // namespace

FieldSpec image_field() { return {"image", FieldKind::image, DType::uint8, {-1, -1, 3}, 0}; }

FieldSpec label_field(std::int64_t classes) {
  return {"label", FieldKind::label, DType::int64, {}, classes};
}

FieldSpec mask_field(const std::string& name, std::int64_t classes) {
  return {name, FieldKind::mask, DType::uint8, {-1, -1}, classes};
}

void check_mask_classes(const std::string& option, std::int64_t classes,
                        std::vector<std::string>& problems) {
  if (classes >= 0 && classes <= kMostMaskClasses) return;
  problems.push_back(option + " is " + std::to_string(classes) +
                     ": it must be 1 to 256, or 0 for unknown");
}

std::string class_problem(const FieldSpec& field, std::int64_t value) {
  const bool is_one = field.classes == 1;
  return "field '" + field.name + "' holds class " + std::to_string(value) + ", but there " +
         (is_one ? "is " : "are ") +
         format_count(static_cast<std::uint64_t>(field.classes), "class") + ", 0" +
         (is_one ? "" : " to " + std::to_string(field.classes - 1));
}

void set_label(Field& field, std::int64_t label) {
  field.array.reset(DType::int64, {}).as<std::int64_t>()[0] = label;
  field.encoded = false;
}

void check_same_size(const Field& image, const Field& mask, const NameOf& describe_field) {
  const Shape pixels = encoded_shape(image, FieldKind::image, describe_field);
  const Shape classes = encoded_shape(mask, FieldKind::mask, describe_field);
  if (pixels[0] == classes[0] && pixels[1] == classes[1]) return;
  throw Error("'" + describe_field(FieldKind::mask) + "' is " + width_and_height(classes) +
              " pixels, but its image '" + describe_field(FieldKind::image) + "' is " +
              width_and_height(pixels) + "; make them the same size (masks without interpolation)");
}

}  // namespace slipstream
