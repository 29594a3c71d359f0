#pragma once

#include "core/json_fields.h"

namespace slipstream::chain {

/// Takes keys of torchvision's operations out of `document`, a file of transforms: those at a value
/// that is the same as leaving them out, and those that no operation here reads, whose other values
/// go to `problems`.
void leave_out_torchvision_keys(json::Json& document, json::Problems& problems);

}  // namespace slipstream::chain
