#pragma once

#include <optional>

#include "loader/jpeg_slot.h"
#include "loader/running_order.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Copies one sample's value of `field` to its position in the slab, converted to the field's wire
/// format. Throws Error if the dtype, shape or classes of the value differ from those that `field`
/// declares.
void collate(const SlabField& field, const ConstArray& value, std::size_t position,
             std::byte* slab);

/// Fills the slot of a field that travels as Wire::jpeg: with the file `value` if `file` has a head
/// for it, otherwise with the pixels `value`. Returns the number of bytes written. Throws as
/// collate() does.
std::size_t collate_jpeg(const SlabField& field, const std::optional<JpegSlot>& file,
                         const ConstArray& value, const SamplePosition& place, std::byte* slab);

}  // namespace slipstream
