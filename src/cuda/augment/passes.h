#pragma once

#include <utility>

#include "cuda/augment/plan.h"

namespace slipstream::augment {

/// Calls use(i, memory) for each pass of a plan, in order. Each pass reads what the one before it
/// wrote. cuda::augment_async() documents the arguments.
template <typename Use>
void each_pass(const AugmentPlan::Program& program, std::size_t batch_size, const std::byte* images,
               const std::byte* drawn, std::byte* scratch, std::byte* to, const Use& use) {
  const std::size_t passes = program.passes.size();
  std::byte* next = scratch + statistics_bytes(program, batch_size);
  std::byte* after_next = next + (passes > 2 ? place_bytes(program, batch_size) : 0);
  for (std::size_t i = 0; i < passes; ++i) {
    PassMemory memory = make_pass_memory(program, i);
    memory.images = images;
    memory.drawn = drawn;
    memory.statistics = scratch;
    memory.batch_size = static_cast<std::int64_t>(batch_size);
    memory.to = i + 1 == passes ? to : next;
    use(i, memory);
    images = next;
    std::swap(next, after_next);
  }
}

}  // namespace slipstream::augment
