#pragma once

#include <vector>

#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// The layout of a loader's slabs, once everything about its options is in order. Throws Refused as
/// DataLoader does.
SlabLayout checked_layout(const Dataset& dataset, const std::vector<NamedOp>& transforms,
                          const DataLoaderOptions& options);

}  // namespace slipstream
