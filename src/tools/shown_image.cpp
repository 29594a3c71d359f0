#include "tools/shown_image.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "loader/bad_samples.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/transforms.h"
#include "tools/sheet.h"

namespace slipstream {
namespace {

bool can_be_shown(DType dtype, const Shape& shape) {
  const auto dims = shape.dims.begin();
  return (dtype == DType::uint8 || dtype == DType::float32) && shape.rank == 3 &&
         std::find(dims, dims + 3, 0) == dims + 3;
}

[[noreturn]] void refuse_image(const FieldSpec& spec, const char* when) {
  throw Refused("images cannot be shown: field '" + spec.name + "' is " +
                std::string(to_string(spec.dtype)) + " of " + to_string(spec.shape) + when +
                ", not uint8 or float32 of height x width x channels");
}

std::byte to_level(double unit) {
  if (!(unit > 0)) return std::byte{0};
  return static_cast<std::byte>(std::lround(std::min(unit, 1.0) * 255));
}

std::optional<ShownLevels::ChannelScaling> find_scaling(const AnyOp& op, std::size_t channels) {
  ShownLevels::ChannelScaling undo;
  if (const auto* normalize = op.get_if<Normalize>()) {
    for (std::size_t c = 0; c < channels; ++c) {
      undo.factor[c] = normalize->channel_std(c);
      undo.offset[c] = normalize->channel_mean(c);
    }
    return undo;
  }
  const auto* divide = op.get_if<Divide>();
  if (divide == nullptr) return std::nullopt;
  undo.factor.fill(divide->divisor);
  return undo;
}

}  // namespace

ShownLevels levels_after(const std::vector<NamedOp>& chain, FieldSpec image) {
  ShownLevels levels;
  for (const auto& [name, op] : chain) {
    if (!op.touches(image.kind)) continue;
    const auto channels = static_cast<std::size_t>(image.shape[2]);
    if (const auto undo = find_scaling(op, channels))
      levels.undone.insert(levels.undone.begin(), *undo);
    const auto* to_dtype = op.get_if<ToDtype>();
    const bool keeps_levels = op.get_if<Divide>() || op.get_if<ConvertColor>() ||
                              (to_dtype != nullptr && !to_dtype->scale);
    if (image.dtype == DType::uint8) levels.white = keeps_levels ? 255 : 1;
    image = op.output(image);
  }
  return levels;
}

HostArray convert_to_rgb(const ConstArray& image, const ShownLevels& levels) {
  HostArray rgb;
  const MutableArray out = rgb.reset(DType::uint8, {image.shape[0], image.shape[1], 3});
  const auto channels = static_cast<std::size_t>(image.shape[2]);
  const std::size_t values = image.shape.elements() / channels * 3;
  for (std::size_t i = 0; i < values; ++i) {
    const std::size_t channel = channels < 3 ? 0 : i % 3;
    const std::size_t from = i / 3 * channels + channel;
    if (image.dtype == DType::uint8) {
      out.data[i] = image.data[from];
      continue;
    }
    double value = image.as<float>()[from];
    for (const ShownLevels::ChannelScaling& undo : levels.undone)
      value = value * undo.factor[channel] + undo.offset[channel];
    out.data[i] = to_level(value / levels.white);
  }
  return rgb;
}

std::size_t find_image(const std::vector<FieldSpec>& stored, const SlabLayout& layout) {
  const auto image = std::find_if(stored.begin(), stored.end(), [](const FieldSpec& spec) {
    return spec.kind == FieldKind::image;
  });
  if (image == stored.end())
    throw Refused("the data set has no images: none of its fields is an image");
  if (!can_be_shown(image->dtype, image->shape)) refuse_image(*image, "");
  const FieldSpec& after = layout.field(image->name).spec;
  if (!can_be_shown(after.dtype, after.shape)) refuse_image(after, " after the transforms");
  return static_cast<std::size_t>(image - stored.begin());
}

void check_image(const ConstArray& image, std::uint64_t sample) {
  if (can_be_shown(image.dtype, image.shape)) return;
  throw BadSample("sample " + std::to_string(sample) + ": its image is " +
                  std::string(to_string(image.dtype)) + " of " + to_string(image.shape) +
                  ", which cannot be shown");
}

HostArray make_image_tile(const Sample& sample, const std::vector<FieldSpec>& fields,
                          std::size_t image, const ShownLevels& levels, std::int64_t side) {
  const HostArray rgb = convert_to_rgb(sample.fields[image].array.view(), levels);
  const Shape shape = rgb.view().shape;
  HostArray tile = make_tile(rgb.view(), side);
  for (std::size_t i = 0; i < sample.fields.size(); ++i) {
    if (fields[i].kind == FieldKind::boxes)
      outline_boxes(sample.fields[i].array.view(), shape[0], shape[1], tile);
  }
  return tile;
}

}  // namespace slipstream
