#pragma once

#include <span>
#include <string>
#include <vector>

#include "slipstream/core/array.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// The fields that maps of such samples have, after the transforms: labels and masks of up to 256
/// classes as uint8. Adds to `problems` what maps cannot hold, with its remedy.
std::vector<FieldSpec> npy_fields(const std::vector<FieldSpec>& specs,
                                  const std::vector<NamedOp>& transforms,
                                  std::vector<std::string>& problems);

/// `value` as `field` stores it, in `spare` where that is another type. Throws Error for another
/// shape or type and for a class out of range.
ConstArray npy_value(const FieldSpec& field, const ConstArray& value, HostArray& spare);

}  // namespace slipstream
