#include "slipstream/datasets/dataset.h"

#include <algorithm>

namespace slipstream {

void SkippedSamples::add(const SkippedSamples& other) {
  places += other.places;
  for (const SkippedSample& sample : other.samples) {
    const auto at = std::lower_bound(
        samples.begin(), samples.end(), sample,
        [](const SkippedSample& a, const SkippedSample& b) { return a.sample < b.sample; });
    if (at == samples.end() || at->sample != sample.sample) samples.insert(at, sample);
  }
}

}  // namespace slipstream
