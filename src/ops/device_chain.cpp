#include "slipstream/device_chain.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "slipstream/error.h"
#include "slipstream/round_up.h"

namespace slipstream {
namespace {

constexpr std::size_t kDrawnAlignment = 16;

/// As AnyOp::apply() finds it for a sample.
std::optional<Shape> reference_shape(const AnyOp& op, const std::vector<FieldSpec>& fields) {
  const auto find = [&](auto accepts) {
    return std::find_if(fields.begin(), fields.end(), [&](const FieldSpec& field) {
      return op.touches(field.kind) && accepts(field.kind);
    });
  };
  auto found = find([](FieldKind kind) { return kind == FieldKind::image; });
  if (found == fields.end()) found = find([](FieldKind kind) { return kind != FieldKind::boxes; });
  return found == fields.end() ? std::nullopt : std::optional(found->shape);
}

}  // namespace

DeviceChain::DeviceChain(const std::vector<NamedOp>& operations, std::uint32_t first,
                         std::vector<FieldSpec> fields)
    : first_(first), inputs_(std::move(fields)), outputs_(inputs_) {
  for (const NamedOp& named : operations) {
    try {
      named.op.validate();
      Step step{named, drawn_bytes_, reference_shape(named.op, outputs_), outputs_};
      outputs_ = fields_after(named.op, std::move(outputs_));
      drawn_bytes_ += round_up(named.op.drawn_bytes(), kDrawnAlignment);
      steps_.push_back(std::move(step));
    } catch (const Refused& refused) {
      throw Refused("transform '" + named.name + "': " + refused.what());
    }
  }
  drawn_bytes_ = std::max(drawn_bytes_, kDrawnAlignment);
}

void DeviceChain::draw(RandomKey key, std::byte* to) const {
  std::memset(to, 0, drawn_bytes_);
  key.operation = first_;
  for (const Step& step : steps_) {
    if (step.drawn_for) step.named.op.draw(key, *step.drawn_for, to + step.drawn_offset_bytes);
    ++key.operation;
  }
}

void DeviceChain::move_boxes(const std::byte* drawn, const MutableArray& boxes) const {
  for (const Step& step : steps_) {
    if (!step.drawn_for) continue;
    const auto map = step.named.op.map(drawn + step.drawn_offset_bytes, *step.drawn_for);
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
