#pragma once

#include <c10/core/ScalarType.h>

#include "slipstream/core/array.h"
#include "slipstream/core/error.h"

namespace slipstream {

inline at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::uint8:
      return at::kByte;
    case DType::int32:
      return at::kInt;
    case DType::int64:
      return at::kLong;
    case DType::float32:
      return at::kFloat;
  }
  throw Error("unknown dtype");
}

}  // namespace slipstream
