#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

/// What the doctor measures of a native loader.
void add_examined_loader(pybind11::module_& module);

}  // namespace slipstream
