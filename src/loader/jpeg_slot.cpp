#include "loader/jpeg_slot.h"

#include <cstring>
#include <type_traits>

#include "slipstream/core/error.h"
#include "slipstream/transforms/transforms.h"
#include "transforms/resampling.h"

namespace slipstream {
namespace {

static_assert(sizeof(JpegSlot) <= JpegSlot::kBytes && std::is_trivially_copyable_v<JpegSlot>);

const std::byte* slot_at(const SlabField& field, const std::byte* slab, std::size_t position) {
  ensure(field.wire == Wire::jpeg, "only fields with the wire format jpeg have slots");
  return slab + field.offset_bytes + position * field.sample_bytes;
}

template <typename Flip>
void mirror(const MutableArray& image, HostArray& copy, Scratch& scratch) {
  copy.assign(image);
  Flip{}.apply({true}, FieldKind::image, copy.view(), image, scratch);
}

}  // namespace

JpegSlot jpeg_slot(const SlabField& field, const std::byte* slab, std::size_t position) {
  JpegSlot slot;
  // The head is copied, because the slab contains bytes and no JpegSlot object.
  std::memcpy(&slot, slot_at(field, slab, position), sizeof(slot));
  return slot;
}

std::span<const std::byte> jpeg_payload(const SlabField& field, const std::byte* slab,
                                        std::size_t position) {
  const JpegSlot slot = jpeg_slot(field, slab, position);
  return {slot_at(field, slab, position) + JpegSlot::kBytes, slot.bytes};
}

void unpack_jpeg(const JpegSlot& slot, std::span<const std::byte> file,
                 const DecodeOptions& options, const MutableArray& out) {
  HostArray image;
  Scratch scratch;
  DrawnCrop crop{slot.region, slot.height, slot.width};
  std::optional<Window> there;
  if (options.partial) there = decode_rgb_window(file, options, {slot.region}, image);
  if (there) {
    crop = crop.within(*there);
  } else {
    decode_rgb(file, options, image);
  }
  resample(FieldKind::image, {}, image.view(), crop, out, scratch);
  if (slot.flips_across) mirror<RandomHorizontalFlip>(out, image, scratch);
  if (slot.flips_down) mirror<RandomVerticalFlip>(out, image, scratch);
}

}  // namespace slipstream
