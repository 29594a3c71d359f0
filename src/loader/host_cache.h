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

/// Makes the first samples of the running order, in the state before step `end`, with `threads`
/// threads. If bad samples are skipped, the later steps are also applied to each, because a sample
/// may fail in one of them. Throws the error of the first sample that failed.
std::vector<CachedSample> cache_samples(const SampleSteps& steps, BadSamples& bad,
                                        std::size_t items, std::size_t end, unsigned threads);

/// Fills every slab with the batch of its number. Throws as cache_samples() does.
void fill_slabs(const SampleSteps& steps, BadSamples& bad, const SlabMemory& slabs,
                unsigned threads);

}  // namespace slipstream
