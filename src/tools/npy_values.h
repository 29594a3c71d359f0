#pragma once

#include <span>
#include <string>
#include <vector>

#include "slipstream/core/array.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Returns the fields of .npy files for samples after the transforms: labels and masks of up to 256
/// classes are uint8. Appends to `problems` what .npy files cannot hold, with its remedy.
std::vector<FieldSpec> npy_fields(const std::vector<FieldSpec>& specs,
                                  const std::vector<NamedOp>& transforms,
                                  std::vector<std::string>& problems);

/// Returns `value` as `field` stores it, converted into `spare` if the type differs. Throws Error
/// for another shape or type and for a class out of range.
ConstArray npy_value(const FieldSpec& field, const ConstArray& value, HostArray& spare);

}  // namespace slipstream
