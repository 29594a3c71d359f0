#pragma once

#include "slipstream/cli/workload.h"

namespace slipstream {

Pipeline segmentation(Options& options);
Pipeline classification(Options& options);
Pipeline branches(Options& options);
Pipeline starved(Options& options);

OptionList options_of_classification();
OptionList options_of_branches();
OptionList options_of_starved();

}  // namespace slipstream
