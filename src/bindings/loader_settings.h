#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

/// Adds slipstream._native.Loader, the native loader, and its settings to `module`.
void add_loader(pybind11::module_& module);

}  // namespace slipstream
