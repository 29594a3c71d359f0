#pragma once

#include <vector>

#include "loader/bad_samples.h"
#include "loader/sample_steps.h"
#include "loader/slab_memory.h"

namespace slipstream {

struct CachedSample {
  Sample sample;
  std::uint64_t id = 0;
  std::uint16_t occurrence = 0;
};

/// The first samples of the running order as they are before step `end`, made by `threads`
/// threads. Where bad samples are skipped, each has gone through the later steps too. Throws what
/// the first of them that failed threw.
std::vector<CachedSample> cache_samples(const SampleSteps& steps, BadSamples& bad,
                                        std::size_t items, std::size_t end, unsigned threads);

/// Fills every slab with the batch of its number. Throws like cache_samples.
void fill_slabs(const SampleSteps& steps, BadSamples& bad, const SlabMemory& slabs,
                unsigned threads);

}  // namespace slipstream
