#pragma once

#include <c10/core/ScalarType.h>

#include "slipstream/core/array.h"
#include "slipstream/core/error.h"

namespace slipstream {

inline at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return at::kByte;
    case DType::i32:
      return at::kInt;
    case DType::i64:
      return at::kLong;
    case DType::f32:
      return at::kFloat;
  }
  throw Error("unknown dtype");
}

}  // namespace slipstream
