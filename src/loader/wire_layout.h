#pragma once

#include <string>
#include <vector>

#include "core/packed_field.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Sets every field's wire format. Adds to `problems`, each with its remedy, those that it cannot
/// take and names that no field has.
void choose_wires(const WireFormats& wire, SlabLayout& layout, std::vector<std::string>& problems);

/// Places the fields, whose forms and wire formats (and slots, of Wire::jpeg) are set and fit.
void place_fields(SlabLayout& layout);

/// How `field` is stored in the slab.
Element packed_element(const SlabField& field);
/// Of the vectors of Wire::one_hot, their length; 0 for other formats.
std::uint32_t one_hot_classes(const SlabField& field);

}  // namespace slipstream
