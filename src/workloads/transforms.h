#pragma once

#include "slipstream/workload.h"

namespace slipstream {

/// `declared` with the transforms of Options::chain or, without one, a Resize to the image size.
/// Throws Refused for a chain that does not end with images of that size.
Pipeline with_transforms(Pipeline declared, const Options& options);

}  // namespace slipstream
