#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace slipstream {

/// Writes the values of `from` into the memory of `to`, which has the same shape.
/// at::Tensor::copy_() refuses a tensor made by expand(), whose elements share memory along a
/// dimension. This function writes the first element along such a dimension, because there is
/// memory for only one. The work is enqueued on the current stream.
void copy_values(const at::Tensor& to, const at::Tensor& from);

/// Returns why copy_values() would lose values: elements of `to` share memory but those of `from`
/// differ. "" if it would lose none. `name` is the tensor's name in the message. Waits for the
/// device if elements of `to` share memory.
std::string lost_by_copy(const std::string& name, const at::Tensor& to, const at::Tensor& from);

}  // namespace slipstream
