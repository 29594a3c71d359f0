#pragma once

#include <numeric>
#include <vector>

#include "slipstream/core/array.h"

namespace slipstream {

/// An array of the values 0, 1, 2, ...
template <typename T>
HostArray counting(DType dtype, const Shape& shape) {
  HostArray array;
  const MutableArray out = array.reset(dtype, shape);
  std::iota(out.as<T>(), out.as<T>() + shape.elements(), T{0});
  return array;
}

template <typename T>
std::vector<T> copy_values(const Field& field) {
  const ConstArray view = field.array.view();
  return {view.as<T>(), view.as<T>() + view.shape.elements()};
}

}  // namespace slipstream
