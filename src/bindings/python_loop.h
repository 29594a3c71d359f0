#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

/// Adds the doctor's Examiner for loops that Python runs: examine_loop(), turns, and cache sizes.
void add_python_loop(pybind11::module_& module);

}  // namespace slipstream
