#include "tools/preview_sheet.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <optional>
#include <sstream>

#include "datasets/class_names.h"
#include "loader/slab_layout.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::size_t kColumnsOfClasses = 4;

SlabLayout checked_layout(const Dataset& samples, const std::vector<NamedOp>& chain) {
  std::vector<std::string> problems;
  SlabLayout layout = plan_slab(samples, chain, {{.batch_size = 1}, {}}, problems);
  refuse(problems);
  return layout;
}

/// Returns one value as int64.
/// REQUIRES: an integer dtype
std::int64_t integer_at(const ConstArray& values, std::size_t index) {
  if (values.dtype == DType::uint8) return values.as<std::uint8_t>()[index];
  if (values.dtype == DType::int32) return values.as<std::int32_t>()[index];
  return values.as<std::int64_t>()[index];
}

/// Converts an integer mask to bytes. Class indices above 255 share the colors of others.
HostArray byte_mask(const ConstArray& mask) {
  HostArray bytes;
  const MutableArray out = bytes.reset(DType::uint8, mask.shape);
  for (std::size_t i = 0; i < mask.shape.elements(); ++i)
    out.data[i] = static_cast<std::byte>(integer_at(mask, i));
  return bytes;
}

/// Returns the first integer field of `kind`, a mask or a label.
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

/// Returns a tile of `image` with its captions.
Tile make_class_tile(HostArray image, const Prediction& prediction,
                     const std::optional<ConstArray>& label,
                     const std::vector<std::string>& names) {
  const auto& [number, probability] = prediction.classes.front();
  std::ostringstream text;
  text << name_of_class(number, names) << ' ' << std::fixed << std::setprecision(2) << probability;
  Tile tile{std::move(image), {text.str()}};
  if (!label) return tile;
  const std::int64_t wanted = integer_at(*label, 0);
  tile.captions.push_back("label " + name_of_class(wanted, names));
  tile.is_marked = wanted != number;
  return tile;
}

}  // namespace

PreviewSheet::PreviewSheet(std::shared_ptr<const Dataset> samples,
                           const std::vector<NamedOp>& chain, const PreviewSheetOptions& options)
    : samples_(std::move(samples)),
      cell_(options.cell),
      steps_(samples_, chain, checked_layout(*samples_, chain), options.seed, options.decode),
      image_(find_image(steps_.stored(), steps_.layout())),
      levels_(levels_after(chain, steps_.stored()[image_])) {}

Sheet PreviewSheet::sheet(const std::vector<Prediction>& predictions) {
  const std::vector<FieldSpec>& fields = steps_.stored();
  const std::int64_t side = cell_ - 2 * kTileBorder;
  const bool are_masks = predictions.front().classes.empty();
  SampleBuffers buffers(fields.size());
  StepMeter meter(steps_.names().size());
  Sheet made{.cell = cell_};
  const auto add_mask = [&](const ConstArray& mask, const char* caption) {
    made.tiles.push_back({make_mask_tile(mask, side), {caption}});
  };
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const SamplePosition place{.position = 0, .epoch = 0, .sample = i};
    steps_.run(0, steps_.collate_step(), place, buffers, meter);
    check_image(buffers.sample.fields[image_].array.view(), i);
    HostArray image = make_image_tile(buffers.sample, fields, image_, levels_, side);
    const std::optional<ConstArray> label =
        label_in(buffers.sample, are_masks ? FieldKind::mask : FieldKind::label, fields);
    if (!are_masks) {
      made.tiles.push_back(
          make_class_tile(std::move(image), predictions[i], label, samples_->class_names()));
      continue;
    }
    const std::string name = std::filesystem::path(samples_->name(i)).filename().string();
    made.tiles.push_back({std::move(image), {name}});
    add_mask(predictions[i].mask.view(), "prediction");
    if (label) add_mask(byte_mask(*label).view(), "label");
  }
  made.columns = are_masks ? made.tiles.size() / predictions.size()
                           : std::min(kColumnsOfClasses, made.tiles.size());
  return made;
}

}  // namespace slipstream
