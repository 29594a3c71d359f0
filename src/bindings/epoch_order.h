#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

/// Adds the class with which python/slipstream/_order.py computes the order of samples.
void add_epoch_order(pybind11::module_& module);

}  // namespace slipstream
