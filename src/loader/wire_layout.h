#pragma once

#include <string>
#include <vector>

#include "core/packed_field.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Sets the wire format of every field. Adds to `problems`, each with its remedy, the formats that
/// a field does not support and the names that no field has.
void choose_wires(const WireFormats& wire, SlabLayout& layout, std::vector<std::string>& problems);

/// Assigns offsets to the fields. REQUIRES: forms, wire formats and sizes of slots are set and
/// valid
void place_fields(SlabLayout& layout);

/// Returns the type of the elements of `field` in the slab.
Element packed_element(const SlabField& field);
/// Returns the length of the vectors if the wire format is Wire::one_hot; 0 for other formats.
std::uint32_t one_hot_classes(const SlabField& field);

}  // namespace slipstream
