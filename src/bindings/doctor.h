#pragma once

#include <torch/csrc/utils/pybind.h>

namespace slipstream {

/// Adds Observations, diagnose(), what_if() and DoctorReport to `module`.
/// python/slipstream/doctor.py calls them with its measurements of a PyTorch loader.
void add_diagnosis(pybind11::module_& module);

/// Adds functions that measure the capacity of the machine, how busy a GPU is, and how long an
/// operation of the library takes for a sample.
void add_measuring(pybind11::module_& module);

}  // namespace slipstream
