#include "tools/shown_image.h"

#include <algorithm>
#include <string>

#include "loader/bad_samples.h"
#include "tools/tiles.h"

namespace slipstream {
namespace {

bool can_be_shown(DType dtype, const Shape& shape) {
  const auto dims = shape.dims.begin();
  return (dtype == DType::uint8 || dtype == DType::float32) && shape.rank == 3 &&
         std::find(dims, dims + 3, 0) == dims + 3;
}

[[noreturn]] void refuse_image(const FieldSpec& spec, const char* when) {
  throw Refused("images cannot be shown: field '" + spec.name + "' is " +
                std::string(name_of(spec.dtype)) + " of " + to_string(spec.shape) + when +
                ", not uint8 or float32 of height x width x channels");
}

}  // namespace

std::size_t find_image(const std::vector<FieldSpec>& stored, const SlabLayout& layout) {
  const auto image = std::find_if(stored.begin(), stored.end(), [](const FieldSpec& spec) {
    return spec.kind == FieldKind::image;
  });
  if (image == stored.end())
    throw Refused("the data set has no images: none of its fields holds any");
  if (!can_be_shown(image->dtype, image->shape)) refuse_image(*image, "");
  const FieldSpec& after = layout.field(image->name).spec;
  if (!can_be_shown(after.dtype, after.shape)) refuse_image(after, " after the transforms");
  return static_cast<std::size_t>(image - stored.begin());
}

void check_image(const ConstArray& image, std::uint64_t sample) {
  if (can_be_shown(image.dtype, image.shape)) return;
  throw BadSample("sample " + std::to_string(sample) + ": its image is " +
                  std::string(name_of(image.dtype)) + " of " + to_string(image.shape) +
                  ", which cannot be shown");
}

HostArray tile_of_image(const Sample& sample, const std::vector<FieldSpec>& fields,
                        std::size_t image, const ShownLevels& levels, std::int64_t side) {
  const HostArray rgb = rgb_of(sample.fields[image].array.view(), levels);
  const Shape shape = rgb.view().shape;
  HostArray tile = tile_of(rgb.view(), side);
  for (std::size_t i = 0; i < sample.fields.size(); ++i) {
    if (fields[i].kind == FieldKind::boxes)
      outline_boxes(sample.fields[i].array.view(), shape[0], shape[1], tile);
  }
  return tile;
}

}  // namespace slipstream
