#pragma once

#include <memory>

#include "slipstream/datasets/dataset.h"
#include "transforms/synthetic_cost.h"

namespace slipstream {

/// The two steps share one lock.
struct SyntheticCosts {
  SyntheticCost read = {};
  SyntheticCost decode = {};
};

/// `dataset` with known costs, to find out whether a diagnosis finds them. The values stay the
/// same. With a cost of decoding, the first field counts as encoded in every sample, so that the
/// step takes place; an encoded first field must then not be uint8 of one dimension once decoded.
/// With memory_bytes, a buffer of 256 MiB is taken. Throws Refused as with_cost() of an operation
/// does.
std::shared_ptr<const Dataset> with_cost(std::shared_ptr<const Dataset> dataset,
                                         const SyntheticCosts& costs);

}  // namespace slipstream
