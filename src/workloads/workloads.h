#pragma once

#include "slipstream/workload.h"

namespace slipstream {

Pipeline segmentation(const Options& options);
Pipeline classification(const Options& options);

}  // namespace slipstream
