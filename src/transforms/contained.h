#pragma once

#include <cstddef>
#include <vector>

#include "slipstream/transforms/op.h"

namespace slipstream {

/// Returns the operations in a container (containers.h), or nullptr if `op` is not a container.
const std::vector<NamedOp>* contained_ops(const AnyOp& op);

/// Returns the key of the operation at `index` of a container with `key`.
RandomKey contained_key(const RandomKey& key, std::size_t index);

}  // namespace slipstream
