#pragma once

#include <cstdint>

#include "slipstream/loader/sampling.h"

namespace slipstream {

/// A sample, and its occurrence in the epoch.
struct TakenSample {
  std::uint64_t sample = 0;
  std::uint64_t occurrence = 0;  ///< differs each time a sample is taken in an epoch
};

/// The order of samples. It is a pure function of (seed, epoch), computed for each position in
/// O(1), or O(log samples) with weights. Any step of any epoch can therefore be computed directly.
/// Shuffling is a keyed permutation of [0, samples) (docs/random.md). Immutable, so threads share
/// it.
class Sampler {
 public:
  /// REQUIRES: samples > 0; a sampling with labels or weights has one for each sample
  Sampler(std::uint64_t samples, bool shuffle, std::uint64_t seed, Sampling sampling = {});

  /// Returns the number of positions in an epoch, which is the number of samples in the data set.
  std::uint64_t size() const { return samples_; }
  /// Returns the sample at `position` (below size()) of `epoch`.
  TakenSample take(std::uint32_t epoch, std::uint64_t position) const;
  std::uint64_t at(std::uint32_t epoch, std::uint64_t position) const {
    return take(epoch, position).sample;
  }
  /// All occurrences are below this number; 1 if every sample is taken once.
  std::uint64_t occurrences() const;

 private:
  std::uint64_t samples_;
  bool shuffle_;
  std::uint64_t seed_;
  Sampling sampling_;
};

}  // namespace slipstream
