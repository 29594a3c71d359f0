#pragma once

#include <optional>

#include "loader/jpeg_slot.h"
#include "loader/running_order.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Copies one sample's value of `field` to its place in the slab, narrowed to the wire type.
/// Throws Error where the value is not what `field` declares (dtype, shape, classes).
void collate(const SlabField& field, const ConstArray& value, std::size_t position,
             std::byte* slab);

/// Fills the slot of a field of Wire::jpeg: with the file `value` where there is a head for it,
/// else with the pixels `value`. Returns the bytes written. Throws as collate() does.
std::size_t collate_jpeg(const SlabField& field, const std::optional<JpegSlot>& file,
                         const ConstArray& value, const SamplePosition& place, std::byte* slab);

}  // namespace slipstream
