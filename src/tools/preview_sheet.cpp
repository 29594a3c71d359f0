#include "tools/preview_sheet.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <optional>
#include <sstream>

#include "datasets/class_names.h"
#include "loader/slab_layout.h"
#include "slipstream/core/error.h"
#include "slipstream/ops/resize.h"
#include "tools/shown_image.h"
#include "tools/tiles.h"

namespace slipstream {
namespace {

constexpr std::size_t kColumnsOfClasses = 4;

SlabLayout checked_layout(const Dataset& samples, const std::vector<NamedOp>& chain) {
  std::vector<std::string> problems;
  SlabLayout layout = plan_slab(samples, chain, {.batch_size = 1}, problems);
  refuse(problems);
  return layout;
}

/// Of integers, as bytes: a value that is no byte has no color of its own.
HostArray byte_mask(const ConstArray& mask) {
  HostArray bytes;
  const MutableArray out = bytes.reset(DType::uint8, mask.shape);
  for (std::size_t i = 0; i < mask.shape.elements(); ++i) {
    if (mask.dtype == DType::uint8) out.data[i] = mask.data[i];
    if (mask.dtype == DType::int32)
      out.data[i] = static_cast<std::byte>(mask.as<std::int32_t>()[i]);
    if (mask.dtype == DType::int64)
      out.data[i] = static_cast<std::byte>(mask.as<std::int64_t>()[i]);
  }
  return bytes;
}

HostArray tile_of_mask(const ConstArray& mask, std::int64_t side) {
  const std::int64_t longest = std::max(mask.shape[0], mask.shape[1]);
  const Resize resize{{std::max<std::int64_t>(1, mask.shape[0] * side / longest),
                       std::max<std::int64_t>(1, mask.shape[1] * side / longest)}};
  HostArray scaled, tile;
  Scratch scratch;
  const Shape shape = {resize.size.height, resize.size.width};
  resize.apply({}, FieldKind::mask, mask, scaled.reset(DType::uint8, shape), scratch);
  const MutableArray out = tile.reset(DType::uint8, {shape[0], shape[1], 3});
  for (std::size_t i = 0; i < out.bytes(); ++i)
    out.data[i] = std::byte{color_of_class(scaled.view().as<std::uint8_t>()[i / 3])[i % 3]};
  return tile;
}

/// Of integers.
std::int64_t class_in(const ConstArray& label) {
  if (label.dtype == DType::uint8) return *label.as<std::uint8_t>();
  if (label.dtype == DType::int32) return *label.as<std::int32_t>();
  return *label.as<std::int64_t>();
}

/// A mask or a label of integers: the first field of that kind.
std::optional<ConstArray> label_in(const Sample& sample, FieldKind kind,
                                   const std::vector<FieldSpec>& fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const ConstArray value = sample.fields[i].array.view();
    const bool has_form =
        value.dtype != DType::float32 && value.shape.rank == (kind == FieldKind::mask ? 2U : 0U);
    if (fields[i].kind == kind && has_form) return value;
  }
  return std::nullopt;
}

/// A tile of `image` with its captions.
Tile tile_of_classes(HostArray image, const Prediction& prediction,
                     const std::optional<ConstArray>& label,
                     const std::vector<std::string>& names) {
  const auto& [number, probability] = prediction.classes.front();
  std::ostringstream text;
  text << name_of_class(number, names) << ' ' << std::fixed << std::setprecision(2) << probability;
  Tile tile{std::move(image), {text.str()}};
  if (!label) return tile;
  const std::int64_t wanted = class_in(*label);
  tile.captions.push_back("label " + name_of_class(wanted, names));
  tile.is_marked = wanted != number;
  return tile;
}

}  // namespace

Rgb color_of_class(std::uint8_t number) {
  constexpr unsigned kBits = 8;
  Rgb color = {0, 0, 0};
  for (unsigned bit = 0; bit < kBits; ++bit) {
    const unsigned channel = bit % 3, level = kBits - 1 - bit / 3;
    color[channel] = static_cast<std::uint8_t>(color[channel] | (number >> bit & 1U) << level);
  }
  return color;
}

PreviewSheet::PreviewSheet(std::shared_ptr<const Dataset> samples,
                           const std::vector<NamedOp>& chain, const PreviewSheetOptions& options)
    : samples_(std::move(samples)),
      cell_(options.cell),
      steps_(samples_, chain, checked_layout(*samples_, chain), options.seed, options.decode),
      image_(find_image(steps_.stored(), steps_.layout())),
      levels_(levels_after(chain, steps_.stored()[image_])) {}

std::vector<std::byte> PreviewSheet::png(const std::vector<Prediction>& predictions) {
  const std::vector<FieldSpec>& fields = steps_.stored();
  const std::int64_t side = cell_ - 2 * kTileBorder;
  const bool are_masks = predictions.front().classes.empty();
  SampleBuffers buffers(fields.size());
  StepMeter meter(steps_.names().size());
  std::vector<Tile> tiles;
  bool has_masks = false;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const SamplePlace place{.position = 0, .epoch = 0, .sample = i};
    steps_.run(0, steps_.collate_step(), place, buffers, meter);
    check_image(buffers.sample.fields[image_].array.view(), i);
    HostArray image = tile_of_image(buffers.sample, fields, image_, levels_, side);
    const std::optional<ConstArray> label =
        label_in(buffers.sample, are_masks ? FieldKind::mask : FieldKind::label, fields);
    if (!are_masks) {
      tiles.push_back(
          tile_of_classes(std::move(image), predictions[i], label, samples_->class_names()));
      continue;
    }
    const std::string name = std::filesystem::path(samples_->name(i)).filename().string();
    tiles.push_back({std::move(image), {name}});
    tiles.push_back({tile_of_mask(predictions[i].mask.view(), side), {"prediction"}});
    if (!label) continue;
    has_masks = true;
    tiles.push_back({tile_of_mask(byte_mask(*label).view(), side), {"label"}});
  }
  const std::size_t columns = !are_masks  ? std::min(kColumnsOfClasses, tiles.size())
                              : has_masks ? 3
                                          : 2;
  return png_of_tiles(tiles, {columns, cell_, {255, 255, 255}});
}

}  // namespace slipstream
