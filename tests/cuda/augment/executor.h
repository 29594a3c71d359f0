#pragma once

#include <cstddef>
#include <vector>

#include "cuda/augment/augment.h"

namespace slipstream::test {

using Bytes = std::vector<std::byte>;

/// Runs a plan on a batch: each of two test programs links its own. `drawn`: a block a sample.
Bytes run_plan(const AugmentPlan& plan, std::size_t batch_size, const Bytes& images,
               const Bytes& drawn, std::size_t out_bytes);

/// Skips the test, or fails it, where the executor cannot run.
void require_executor();

}  // namespace slipstream::test
