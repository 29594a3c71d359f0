#pragma once

#include <vector>

#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Returns the layout of a loader's slabs after checking all of its options. Throws Refused as
/// DataLoader does.
SlabLayout checked_layout(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                          const DataLoaderOptions& options);

}  // namespace slipstream
