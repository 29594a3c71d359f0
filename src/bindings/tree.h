#pragma once

#include <torch/csrc/utils/pybind.h>

#include <functional>

namespace slipstream {

/// Copies `value` to `device`: all tensors, at any depth in tuples, named tuples, lists, mappings
/// and data classes, and objects with a to() method. The containers are copied, and other objects
/// are shared. Copies from page-locked memory are enqueued on the current stream, and do not wait.
/// Needs the GIL.
pybind11::object moved(pybind11::handle value, c10::Device device);

/// Calls `tensor` with each tensor in `value`, and `other` with each object that may contain
/// tensors but cannot be searched.
void for_each_leaf(pybind11::handle value, const std::function<void(const at::Tensor&)>& tensor,
                   const std::function<void(pybind11::handle)>& other);

/// Copies a plain tuple, list or dict, and replaces the value at `to` by function(value at `from`).
/// Returns null, without calling the function, if the batch has another type or no such keys.
pybind11::object with_applied(pybind11::handle batch, pybind11::handle function,
                              pybind11::handle from, pybind11::handle to);

}  // namespace slipstream
