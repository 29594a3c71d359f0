#pragma once

#include "slipstream/workload.h"

namespace slipstream {

/// What `--data synthetic` draws.
SyntheticOptions synthetic_of(const Options& options);

/// Throws Refused where options of `starved` are given to another workload.
void refuse_options_of_starved(const Options& options, const std::string& workload);
/// The same for those of `branches`.
void refuse_options_of_branches(const Options& options, const std::string& workload);

Pipeline segmentation(const Options& options);
Pipeline classification(const Options& options);
Pipeline branches(const Options& options);
Pipeline starved(const Options& options);
WorkloadDefaults defaults_of_starved(const Options& options);

}  // namespace slipstream
