#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

/// Adds FeatureStore, the records of slipstream.FeatureCache on disk.
void add_features(pybind11::module_& module);

}  // namespace slipstream
