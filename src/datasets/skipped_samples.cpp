#include "slipstream/datasets/dataset.h"

#include <algorithm>

namespace slipstream {
namespace {

void merge(const std::vector<SkippedSample>& others, std::vector<SkippedSample>& samples) {
  for (const SkippedSample& sample : others) {
    const auto at = std::lower_bound(
        samples.begin(), samples.end(), sample,
        [](const SkippedSample& a, const SkippedSample& b) { return a.sample < b.sample; });
    if (at == samples.end() || at->sample != sample.sample) samples.insert(at, sample);
  }
}

}  // namespace

void SkippedSamples::add(const SkippedSamples& other) {
  replacements += other.replacements;
  merge(other.samples, samples);
  merge(other.tolerated, tolerated);
}

}  // namespace slipstream
