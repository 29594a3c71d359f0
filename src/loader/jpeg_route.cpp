#include "loader/jpeg_route.h"

#include <algorithm>

#include "codecs/jpeg_engine.h"
#include "core/round_up.h"
#include "slipstream/core/error.h"
#include "slipstream/transforms/transforms.h"

namespace slipstream {
namespace {

constexpr std::size_t kSlotAlignment = 64;

bool is_flip(const AnyOp& op) {
  return op.get_if<RandomHorizontalFlip>() != nullptr || op.get_if<RandomVerticalFlip>() != nullptr;
}

bool may_pad(const AnyOp& op) {
  const auto* crop = op.get_if<RandomCrop>();
  return op.get_if<Pad>() != nullptr || (crop != nullptr && crop->pads());
}

template <typename Flip>
bool flips(const AnyOp& op, const RandomKey& key) {
  const auto* flip = op.get_if<Flip>();
  return flip != nullptr && flip->draw(key, {}).flips;
}

/// Returns true if the image is smaller than the crop, which then pads it.
bool is_padded(const AnyOp& op, const Region& region) {
  const auto* crop = op.get_if<CenterCrop>();
  return crop != nullptr && Size(region.height, region.width) != crop->size;
}

bool lies_in(const Region& region, const Shape& image) {
  return region.top >= 0 && region.left >= 0 && region.height >= 1 && region.width >= 1 &&
         region.top + region.height <= image[0] && region.left + region.width <= image[1];
}

}  // namespace

std::vector<std::string> problems_of_jpeg(const Dataset& dataset,
                                          const std::vector<NamedOp>& transforms) {
  std::vector<std::string> problems;
  if (!dataset.decodes_by_default()) {
    problems.emplace_back("the data set decodes its images itself; leave out this wire format");
  }
  const std::vector<FieldSpec> fields = dataset.fields();
  const auto is_image = [](const FieldSpec& spec) { return spec.kind == FieldKind::image; };
  if (std::count_if(fields.begin(), fields.end(), is_image) > 1) {
    problems.emplace_back("samples have several images; leave out this wire format");
  }
  bool is_resized = false;
  for (const auto& [name, op] : transforms) {
    if (!op.touches(FieldKind::image)) continue;
    if (!is_resized && op.only_resizes() && !may_pad(op)) {
      is_resized = true;
    } else if (!is_resized || !is_flip(op)) {
      problems.push_back(
          "transform '" + name +
          (may_pad(op) ? "' pads" : "' cannot be applied to the decoded image on the device") +
          "; only one crop or resize without padding, followed by flips, is possible: apply the "
          "rest in a device stage, or leave out this wire format");
    }
  }
  if (!is_resized && problems.empty()) {
    problems.emplace_back("no transform resizes the images; add a crop or resize");
  }
  return problems;
}

std::size_t jpeg_slot_bytes(const FieldSpec& image, std::size_t most_bytes) {
  const std::size_t payload = std::max(most_bytes, image.shape.elements());
  return round_up(JpegSlot::kBytes + payload, kSlotAlignment);
}

JpegRoute::JpegRoute(const std::vector<NamedOp>& transforms, const SlabLayout& layout)
    : transforms_(transforms) {
  for (std::size_t i = 0; i < layout.fields.size(); ++i) {
    const SlabField& field = layout.fields[i];
    if (field.wire != Wire::jpeg) continue;
    field_ = i;
    most_bytes_ = field.sample_bytes - JpegSlot::kBytes;
  }
  while (resize_ < transforms.size() && !transforms[resize_].op.touches(FieldKind::image)) {
    ++resize_;
  }
}

std::optional<JpegSlot> JpegRoute::slot_for(std::span<const std::byte> file, RandomKey key) const {
  if (file.size() > most_bytes_) return std::nullopt;
  const auto shape = jpeg::shape_for_engines(file);
  if (!shape) return std::nullopt;
  JpegSlot slot;
  slot.holds = JpegSlot::Holds::file;
  slot.bytes = static_cast<std::uint32_t>(file.size());
  slot.height = static_cast<std::int32_t>((*shape)[0]);
  slot.width = static_cast<std::int32_t>((*shape)[1]);
  slot.sample = key.sample;
  try {
    // The transform's own key, so that the random numbers are those of a worker that decodes the
    // file.
    key.operation = static_cast<std::uint32_t>(resize_);
    slot.region = transforms_[resize_].op.window(key, {(*shape)[0], (*shape)[1], 3}).region;
  } catch (const Error&) {  // the transform's own step throws it again and is named in the message
    return std::nullopt;
  }
  if (!lies_in(slot.region, *shape) || is_padded(transforms_[resize_].op, slot.region))
    return std::nullopt;
  for (std::size_t i = resize_ + 1; i < transforms_.size(); ++i) {
    key.operation = static_cast<std::uint32_t>(i);
    // Two flips in the same direction cancel each other.
    slot.flips_across ^= flips<RandomHorizontalFlip>(transforms_[i].op, key);
    slot.flips_down ^= flips<RandomVerticalFlip>(transforms_[i].op, key);
  }
  return slot;
}

}  // namespace slipstream
