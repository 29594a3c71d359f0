#pragma once

#include <cstddef>
#include <vector>

#include "cuda/augment/augment.h"

namespace slipstream::test {

using Bytes = std::vector<std::byte>;

/// Runs a plan on a batch. Each test program links a different implementation. `drawn` has one
/// block of random parameters per sample.
Bytes run_plan(const AugmentPlan& plan, std::size_t batch_size, const Bytes& images,
               const Bytes& drawn, std::size_t out_bytes);

/// Skips the test, or fails it, if the executor cannot run.
void require_executor();

}  // namespace slipstream::test
