#include "transforms/device_chain.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/round_up.h"
#include "slipstream/core/error.h"
#include "slipstream/transforms/op.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "transforms/contained.h"
#include "transforms/geometry.h"

namespace slipstream {
namespace {

constexpr std::size_t kDrawnAlignment = 16;
constexpr std::int64_t kCanvas = 2;            ///< times the output size of a resize
constexpr std::int64_t kMostPixels = 1 << 14;  ///< per side

std::int64_t canvas_side(std::int64_t side) {
  return std::max(side, std::min(kCanvas * side, kMostPixels));
}

/// Returns the operations in `op` if it is a container. Their parameters start at `offset`, which
/// is increased by their size.
std::vector<DeviceChain::Contained> place_contained(const AnyOp& op, std::size_t& offset) {
  std::vector<DeviceChain::Contained> placed;
  const std::vector<NamedOp>* const contained = contained_ops(op);
  if (contained == nullptr) return placed;
  for (const NamedOp& named : *contained) {
    DeviceChain::Contained& each = placed.emplace_back(DeviceChain::Contained{named, offset, {}});
    offset += round_up(named.op.drawn_bytes(), kDrawnAlignment);
    each.contained = place_contained(named.op, offset);
  }
  return placed;
}

/// Generates the parameters of the operations in a container that has `key`.
void draw_contained(const std::vector<DeviceChain::Contained>& contained, const RandomKey& key,
                    const Shape& shape, std::byte* block) {
  for (std::size_t i = 0; i < contained.size(); ++i) {
    const RandomKey own = contained_key(key, i);
    contained[i].named.op.draw(own, shape, block + contained[i].drawn_offset_bytes);
    draw_contained(contained[i].contained, own, shape, block);
  }
}

}  // namespace

std::optional<OnCanvas> on_canvas(const AnyOp& op) {
  if (const auto* crop = op.get_if<CenterCrop>())
    return OnCanvas{*crop, crop->size.height, crop->size.width};
  if (const auto* crop = op.get_if<RandomCrop>(); crop != nullptr && !crop->pads())
    return OnCanvas{*crop, crop->size.height, crop->size.width};
  const auto* crop = op.get_if<RandomResizedCrop>();
  const auto* resize = op.get_if<Resize>();
  if (crop == nullptr && (resize == nullptr || resize->size.keeps_ratio())) return std::nullopt;
  RandomResizedCrop part;
  if (crop != nullptr) part = *crop;
  // A resize is a RandomResizedCrop whose region is the whole image.
  if (resize != nullptr)
    part = {.size = resize->size.of({}),
            .antialias = resize->antialias,
            .interpolation = resize->interpolation};
  return OnCanvas{part, canvas_side(part.size.height), canvas_side(part.size.width)};
}

DeviceChain::DeviceChain(std::vector<NamedOp> operations, std::uint32_t first,
                         std::vector<FieldSpec> fields, bool has_canvas)
    : first_(first), inputs_(std::move(fields)), outputs_(inputs_) {
  if (has_canvas) {
    before_canvas_ = operations.front();
    operations.front().op = on_canvas(operations.front().op).value().op;
  }
  for (const NamedOp& named : operations) {
    try {
      named.op.validate();
      const FieldSpec* reference = drawn_for(named.op, outputs_);
      Step step{named, drawn_bytes_, std::nullopt, outputs_, {}};
      if (reference != nullptr) step.drawn_for = reference->shape;
      outputs_ = fields_after(named.op, std::move(outputs_));
      drawn_bytes_ += round_up(named.op.drawn_bytes(), kDrawnAlignment);
      step.contained = place_contained(named.op, drawn_bytes_);
      steps_.push_back(std::move(step));
    } catch (const Refused& refused) {
      throw Refused("transform '" + named.name + "': " + refused.what());
    }
  }
  drawn_bytes_ = std::max(drawn_bytes_, kDrawnAlignment);
}

DrawnCrop DeviceChain::draw_crop(RandomKey key, const Shape& shape) const {
  key.operation = first_;
  DrawnCrop crop;
  try {
    before_canvas_->op.draw(key, shape, reinterpret_cast<std::byte*>(&crop));
  } catch (const UnfitSample& unfit) {
    throw UnfitSample("transform '" + before_canvas_->name + "': " + unfit.what());
  }
  return crop;
}

void DeviceChain::draw(RandomKey key, std::byte* to, const DrawnCrop* canvas) const {
  // All bytes are copied to the device, including padding and the parameters of steps that touch
  // nothing.
  std::memset(to, 0, drawn_bytes_);
  key.operation = first_;
  for (const Step& step : steps_) {
    std::byte* const at = to + step.drawn_offset_bytes;
    if (before_canvas_ && &step == &steps_.front()) {
      std::memcpy(at, canvas, sizeof(*canvas));
    } else if (step.drawn_for) {
      step.named.op.draw(key, *step.drawn_for, at);
      draw_contained(step.contained, key, *step.drawn_for, to);
    }
    ++key.operation;
  }
}

void DeviceChain::move_boxes(const std::byte* drawn, const MutableArray& boxes,
                             const DrawnCrop* crop) const {
  for (const Step& step : steps_) {
    if (!step.drawn_for) continue;
    const bool is_of_image = before_canvas_ && &step == &steps_.front();
    const auto map = is_of_image
                         ? before_canvas_->op.map(reinterpret_cast<const std::byte*>(crop),
                                                  {crop->height, crop->width})
                         : step.named.op.map(drawn + step.drawn_offset_bytes, *step.drawn_for);
    if (map) slipstream::move_boxes(*map, boxes, boxes);
  }
}

void DeviceChain::apply(const std::byte* drawn, std::size_t field, HostArray& values,
                        HostArray& spare, Scratch& scratch) const {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const AnyOp& op = steps_[i].named.op;
    const FieldSpec& before = steps_[i].before[field];
    if (!op.touches(before.kind)) continue;
    const FieldSpec& after = i + 1 < steps_.size() ? steps_[i + 1].before[field] : outputs_[field];
    op.apply(drawn + steps_[i].drawn_offset_bytes, before.kind, values.view(),
             spare.reset(after.dtype, after.shape), scratch);
    std::swap(values, spare);
  }
}

}  // namespace slipstream
