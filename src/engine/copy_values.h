#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace slipstream {

/// Writes the values of `from` into the memory of `to`, which has the same shape.
/// at::Tensor::copy_() refuses a tensor made by expand(), whose elements share memory along a
/// dimension; here the first element along such a dimension is written, which is all the memory
/// that there is. Enqueued on the current stream.
void copy_values(const at::Tensor& to, const at::Tensor& from);

/// Why copy_values() would lose values: elements of `to` share memory and those of `from` differ.
/// "" where it loses none. `name`: of the tensor, for the message. Waits for the device where
/// elements of `to` share memory.
std::string lost_by_copy(const std::string& name, const at::Tensor& to, const at::Tensor& from);

}  // namespace slipstream
