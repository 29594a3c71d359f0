#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

/// Adds the classes with which the doctor measures a native loader.
void add_examined_loader(pybind11::module_& module);

}  // namespace slipstream
