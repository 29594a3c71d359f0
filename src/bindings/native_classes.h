#pragma once

#include <pybind11/pybind11.h>

namespace slipstream {

/// Lets the classes of `module` make instances only when they are called. __new__() alone raises
/// TypeError: the C++ object would not exist, and each method would read uninitialized memory. Call
/// it when all classes are in the module.
void refuse_new_alone(pybind11::module_& module);

}  // namespace slipstream
