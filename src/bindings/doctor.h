#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

/// The doctor's arithmetic and reports, for python/slipstream/doctor.py to fill with what it
/// measures of a PyTorch loader: Observations, diagnose(), what_if(), DoctorReport.
void add_diagnosis(pybind11::module_& module);

/// Functions that measure: the machine's capacity, how busy a GPU is, and what an operation of the
/// library costs for a sample.
void add_measuring(pybind11::module_& module);

}  // namespace slipstream
