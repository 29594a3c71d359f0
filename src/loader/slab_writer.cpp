#include "loader/slab_writer.h"

#include <cstring>

#include "loader/collate.h"
#include "transforms/batch_chain.h"
#include "transforms/device_chain.h"

namespace slipstream {

std::size_t SlabWriter::write(const SamplePosition& place, const Sample& sample,
                              const std::optional<JpegSlot>& file, const DecodedPart* part,
                              CanvasMemory& memory, std::byte* slab) const {
  const auto get_value = [&](std::size_t i) { return sample.fields[i].array.view(); };
  return write_values(place, get_value, file, part, memory, slab);
}

std::size_t SlabWriter::write(const SamplePosition& place, std::span<const CachedField> sample,
                              CanvasMemory& memory, std::byte* slab) const {
  const auto get_value = [&](std::size_t i) { return sample[i].value; };
  return write_values(place, get_value, std::nullopt, nullptr, memory, slab);
}

template <typename ValueOf>
std::optional<CanvasPosition> SlabWriter::canvas_place(const SamplePosition& place,
                                                       const ValueOf& get_value,
                                                       const DecodedPart* part) const {
  const DeviceChain* const chain = layout_.device_chain.get();
  if (chain == nullptr || chain->before_canvas() == nullptr) return std::nullopt;
  std::optional<Shape> image;
  if (part) image = part->whole;
  for (const FieldKind kind : {FieldKind::image, FieldKind::mask})
    for (std::size_t i = 0; i < stored_.size() && !image; ++i)
      if (stored_[i].kind == kind && holds_canvases(chain, layout_.fields[i]))
        image = get_value(i).shape;
  bool is_odd = false;
  for (std::size_t i = 0; i < stored_.size(); ++i) {
    if (!holds_canvases(chain, layout_.fields[i])) continue;
    const Shape shape = get_value(i).shape;
    is_odd |= part && part->fields[i] ? part->fields[i]->reduction > 1
                                      : shape[0] != (*image)[0] || shape[1] != (*image)[1];
  }
  return place_on_canvas(*chain, random_key(seed_, 0, place), *image, is_odd);
}

template <typename ValueOf>
std::size_t SlabWriter::write_values(const SamplePosition& place, const ValueOf& get_value,
                                     const std::optional<JpegSlot>& file, const DecodedPart* part,
                                     CanvasMemory& memory, std::byte* slab) const {
  const DeviceChain* const chain = layout_.device_chain.get();
  const std::optional<CanvasPosition> canvas = canvas_place(place, get_value, part);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < stored_.size(); ++i) {
    const SlabField& field = layout_.fields[i];
    if (field.wire == Wire::jpeg) {
      bytes += collate_jpeg(field, file, get_value(i), place, slab);
      continue;
    }
    if (holds_canvases(chain, field)) {
      const Window* const held = part && part->fields[i] ? &*part->fields[i] : nullptr;
      collate_on_canvas(*chain, field, get_value(i), held, *canvas, place.position, memory, slab);
    } else {
      collate(field, get_value(i), place.position, slab);
    }
    bytes += field.sample_bytes;
  }
  draw_for_device(place, canvas ? &*canvas : nullptr, slab);
  return bytes;
}

void SlabWriter::draw_for_device(const SamplePosition& place, const CanvasPosition* canvas,
                                 std::byte* slab) const {
  const auto at = [&](const SlabField& field) {
    return slab + field.offset_bytes + place.position * field.sample_bytes;
  };
  if (const DeviceChain* const chain = layout_.device_chain.get()) {
    std::byte* const drawn = at(layout_.fields[stored_.size()]);
    chain->draw(random_key(seed_, 0, place), drawn, canvas ? &canvas->there : nullptr);
    for (const SlabField& field : layout_.fields) {
      if (field.spec.kind == FieldKind::boxes)
        chain->move_boxes(drawn, {at(field), field.spec.dtype, field.spec.shape},
                          canvas ? &canvas->crop : nullptr);
    }
  }
  if (layout_.batch_chain == nullptr || !layout_.batch_chain->ops().mixes()) return;
  const DrawnMix drawn = layout_.batch_chain->draw(seed_, place.batch_key, place.in_step);
  std::memcpy(at(layout_.fields.back()), &drawn, sizeof(drawn));
}

}  // namespace slipstream
