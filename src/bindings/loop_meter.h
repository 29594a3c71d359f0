#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

/// Adds LoopMeter and LoopTotals, with which slipstream.watch() measures a loop.
void add_loop_meter(pybind11::module_& module);

}  // namespace slipstream
