#pragma once

#include <pybind11/pybind11.h>

namespace slipstream {

/// Makes __new__() of all classes of `module` raise TypeError unless the class is called. After
/// __new__() alone, the C++ object would not exist, and each method would read uninitialized
/// memory. Call it when the module contains all its classes.
void refuse_new_alone(pybind11::module_& module);

}  // namespace slipstream
