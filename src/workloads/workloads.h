#pragma once

#include "slipstream/workload.h"

namespace slipstream {

/// What `--data synthetic` draws.
SyntheticOptions synthetic_of(const Options& options);

Pipeline segmentation(const Options& options);
Pipeline classification(const Options& options);

}  // namespace slipstream
