#pragma once

#include <torch/csrc/utils/pybind.h>

#include <functional>

namespace slipstream {

/// `value` with `change` made to each tensor in it, however deep in tuples, named tuples, lists,
/// dictionaries and other mappings, and data classes; containers are new ones of the same type, and
/// what else there is stays. Needs Python's lock.
pybind11::object with_tensors(pybind11::handle value,
                              const std::function<at::Tensor(const at::Tensor&)>& change);

/// Calls `look` with each tensor in `value`.
void for_each_tensor(pybind11::handle value, const std::function<void(const at::Tensor&)>& look);

}  // namespace slipstream
