#pragma once

#include <torch/csrc/utils/pybind.h>

#include <functional>

namespace slipstream {

/// `value` on `device`: its tensors, however deep in tuples, named tuples, lists, mappings and data
/// classes, which are copied with what else they hold; and what has a to() of its own. Copies from
/// page-locked memory are enqueued on the current stream. What is no tensor stays as it is. Needs
/// Python's lock.
pybind11::object moved(pybind11::handle value, c10::Device device);

/// Calls `tensor` with each tensor in `value`, and `other` with what can hold tensors and cannot be
/// looked into.
void for_each_leaf(pybind11::handle value, const std::function<void(const at::Tensor&)>& tensor,
                   const std::function<void(pybind11::handle)>& other);

/// A copy of a plain tuple, list or dict with function(its value at `from`) at `to`; null, without
/// a call, where the batch is none of them or has no such places.
pybind11::object with_applied(pybind11::handle batch, pybind11::handle function,
                              pybind11::handle from, pybind11::handle to);

}  // namespace slipstream
