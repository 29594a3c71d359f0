#pragma once

#include "slipstream/workload.h"

namespace slipstream {

/// What `--data synthetic` draws.
SyntheticOptions synthetic_of(const Options& options);

/// Throws Refused where a mode is given to a workload that has none.
void refuse_mode(const Options& options, const std::string& workload);

Pipeline segmentation(const Options& options);
Pipeline classification(const Options& options);
Pipeline branches(const Options& options);

}  // namespace slipstream
