#include "data/field_values.h"

#include "slipstream/error.h"
#include "slipstream/image.h"

namespace slipstream {
namespace {

Shape encoded_shape(const Field& field, const std::string& name) {
  const ConstArray file = field.array.view();
  try {
    return image_shape({file.data, file.bytes()});
  } catch (const Error& error) {
    throw Error("'" + name + "': " + error.what());
  }
}

std::string size_text(const Shape& shape) {
  return std::to_string(shape[1]) + " x " + std::to_string(shape[0]);
}

}  // namespace

FieldSpec image_field() { return {"image", FieldKind::image, DType::u8, {-1, -1, 3}, 0}; }

FieldSpec label_field(std::int64_t classes) {
  return {"label", FieldKind::label, DType::i64, {}, classes};
}

FieldSpec mask_field(const std::string& name, std::int64_t classes) {
  return {name, FieldKind::mask, DType::u8, {-1, -1}, classes};
}

void set_label(Field& field, std::int64_t label) {
  field.array.reset(DType::i64, {}).as<std::int64_t>()[0] = label;
  field.encoded = false;
}

void check_same_size(const Field& image, const std::string& image_name, const Field& mask,
                     const std::string& mask_name) {
  const Shape pixels = encoded_shape(image, image_name);
  const Shape classes = encoded_shape(mask, mask_name);
  if (pixels[0] == classes[0] && pixels[1] == classes[1]) return;
  throw Error("'" + mask_name + "' is " + size_text(classes) + " pixels, but its image '" +
              image_name + "' is " + size_text(pixels) +
              "; make them the same size (masks without interpolation)");
}

}  // namespace slipstream
