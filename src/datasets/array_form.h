#pragma once

#include <string>
#include <vector>

#include "slipstream/core/array.h"

namespace slipstream {

/// A field of all samples as the caller declared it.
struct ArrayForm {
  std::string name;
  FieldKind kind = FieldKind::other;
  std::int64_t classes = 0;
  DType dtype = DType::uint8;
  Shape shape;         ///< samples are the first dimension
  std::string source;  ///< its name in messages: "field 'x'" or a file
};

/// Returns the fields of one sample. Appends to `problems` what tensor_dataset() refuses.
std::vector<FieldSpec> sample_specs(const std::vector<ArrayForm>& forms,
                                    std::vector<std::string>& problems);

}  // namespace slipstream
