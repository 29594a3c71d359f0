#pragma once

#include <memory>

#include "slipstream/datasets/dataset.h"
#include "transforms/synthetic_cost.h"

namespace slipstream {

/// Costs of the two steps, which share one lock.
struct SyntheticCosts {
  SyntheticCost read = {};
  SyntheticCost decode = {};
};

/// Returns `dataset` with known additional costs, to test whether a diagnosis finds them. The
/// values do not change. With a cost of decoding, the first field is marked as encoded in every
/// sample, so that the decode step runs; an encoded first field must then not be uint8 of one
/// dimension once decoded. With memory_bytes, a buffer of 256 MiB is allocated. Throws Refused as
/// with_cost() of an operation does.
std::shared_ptr<const Dataset> with_cost(std::shared_ptr<const Dataset> dataset,
                                         const SyntheticCosts& costs);

}  // namespace slipstream
