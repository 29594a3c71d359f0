#pragma once

#include "slipstream/workload.h"

namespace slipstream {

/// What `--data synthetic` draws.
SyntheticOptions synthetic_of(const Options& options);

/// Throws Refused where options of `starved` are given to another workload.
void refuse_options_of_starved(const Options& options, const std::string& workload);
/// What is wrong where options of `branches` are given to another workload; else empty.
std::string problem_of_branches_options(const Options& options, const std::string& workload);
/// Throws Refused for either.
void refuse_other_options(const Options& options, const std::string& workload);

Pipeline segmentation(const Options& options);
Pipeline classification(const Options& options);
Pipeline branches(const Options& options);
Pipeline starved(const Options& options);
WorkloadDefaults defaults_of_starved(const Options& options);

}  // namespace slipstream
