#pragma once

#include <cstdint>

#include "slipstream/loader/sampling.h"

namespace slipstream {

/// A sample, and which of its times in the epoch this is.
struct TakenSample {
  std::uint64_t sample = 0;
  std::uint64_t occurrence = 0;  ///< differs each time a sample is taken in an epoch
};

/// The order of samples: a pure function of (seed, epoch), computed position by position (in O(1),
/// weighted in O(log samples)), so any step of any epoch can be found without walking there.
/// Shuffling is a keyed permutation of [0, samples) (docs/random.md). Immutable: threads share it.
class Sampler {
 public:
  /// REQUIRES: samples > 0; a sampling of labels or weights has one for each sample
  Sampler(std::uint64_t samples, bool shuffle, std::uint64_t seed, Sampling sampling = {});

  /// Positions in an epoch, and samples in the data set.
  std::uint64_t size() const { return samples_; }
  /// What stands at `position` (below size()) of `epoch`.
  TakenSample take(std::uint32_t epoch, std::uint64_t position) const;
  std::uint64_t at(std::uint32_t epoch, std::uint64_t position) const {
    return take(epoch, position).sample;
  }
  /// All occurrences are below this; 1 where every sample comes once.
  std::uint64_t occurrences() const;

 private:
  std::uint64_t samples_;
  bool shuffle_;
  std::uint64_t seed_;
  Sampling sampling_;
};

}  // namespace slipstream
