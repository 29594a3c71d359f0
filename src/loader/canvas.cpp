#include "loader/canvas.h"

#include "loader/collate.h"
#include "slipstream/core/error.h"
#include "transforms/geometry.h"

namespace slipstream {
namespace {

bool lies_plain(const SlabField& field, DType dtype) {
  return field.wire == Wire::plain && field.spec.classes == 0 && field.spec.dtype == dtype &&
         field.dtype == dtype;
}

}  // namespace

CanvasPosition place_on_canvas(const DeviceChain& chain, const RandomKey& key, const Shape& image,
                               bool is_odd) {
  const Shape& canvas = *chain.steps().front().drawn_for;
  CanvasPosition place;
  place.crop = chain.draw_crop(key, image);
  Region& region = place.there.region;
  region.height = place.crop.region.height;
  region.width = place.crop.region.width;
  place.there.height = canvas[0];
  place.there.width = canvas[1];
  place.is_resized = is_odd || region.height > canvas[0] || region.width > canvas[1];
  if (!place.is_resized) return place;
  const Shape made = chain.before_canvas()
                         ->op.output({{}, FieldKind::mask, DType::uint8, {canvas[0], canvas[1]}, 0})
                         .shape;
  region.height = made[0];
  region.width = made[1];
  return place;
}

bool holds_canvases(const DeviceChain* chain, const SlabField& field) {
  return chain != nullptr && chain->before_canvas() != nullptr &&
         field.spec.kind != FieldKind::boxes && chain->before_canvas()->op.touches(field.spec.kind);
}

void collate_on_canvas(const DeviceChain& chain, const SlabField& field, const ConstArray& value,
                       const Window* part, const CanvasPosition& place, std::size_t position,
                       CanvasMemory& memory, std::byte* slab) {
  if (value.shape.rank != field.spec.shape.rank)
    throw Error("field '" + field.spec.name + "' has shape " + to_string(value.shape) +
                ", not that of the other samples");
  const AnyOp& op = chain.before_canvas()->op;
  const DrawnCrop crop = part == nullptr ? place.crop : place.crop.within(*part);
  ConstArray from = value;
  Region region = crop.region;
  Shape shape = field.spec.shape;
  if (value.shape.rank == 3) shape.dims[2] = value.shape[2];
  if (place.is_resized) {
    const FieldSpec after = op.output({{}, field.spec.kind, value.dtype, value.shape, 0});
    op.apply(reinterpret_cast<const std::byte*>(&crop), field.spec.kind, value,
             memory.resized.reset(after.dtype, after.shape), memory.scratch);
    from = memory.resized.view();
    region = place.there.region;
  }
  // A value that needs no conversion is copied straight to the slab, which saves one copy of the
  // image.
  const bool is_direct = lies_plain(field, value.dtype) && shape == field.spec.shape;
  std::byte* const at = slab + field.offset_bytes + position * field.sample_bytes;
  const MutableArray canvas =
      is_direct ? MutableArray{at, value.dtype, shape} : memory.canvas.reset(value.dtype, shape);
  copy_region(from, region, canvas);
  if (!is_direct) collate(field, memory.canvas.view(), position, slab);
}

}  // namespace slipstream
