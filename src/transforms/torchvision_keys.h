#pragma once

#include "core/json_fields.h"

namespace slipstream::chain {

/// Removes keys of torchvision's operations from `document`, a file of transforms: keys whose value
/// equals the default, and keys that no operation here reads. Other values of the latter are
/// appended to `problems`.
void leave_out_torchvision_keys(json::Json& document, json::Problems& problems);

}  // namespace slipstream::chain
