#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

/// The settings of a native loader and the loader, slipstream._native.Loader.
void add_loader(pybind11::module_& module);

}  // namespace slipstream
