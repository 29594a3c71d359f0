#pragma once

#include <cstdint>

namespace slipstream {

/// The order of samples: a pure function of (seed, epoch), computed position by position in O(1)
/// time and memory, so any step of any epoch can be found without walking there. Shuffling is a
/// keyed permutation of [0, samples): a four-round Feistel network over the next even number of
/// bits, at least eight (fewer are visibly not uniform), walked until it lands inside (Black and
/// Rogaway, "Ciphers with arbitrary finite domains", 2002). Round r takes the low bits of word 0 of
/// philox({right half, r, epoch, 0}, {~seed[31:0], ~seed[63:32]}).
class Sampler {
 public:
  /// REQUIRES: samples > 0
  Sampler(std::uint64_t samples, bool shuffle, std::uint64_t seed);

  std::uint64_t size() const { return samples_; }
  /// Index of the sample at `position` (below size()) of `epoch`.
  std::uint64_t at(std::uint32_t epoch, std::uint64_t position) const;

 private:
  std::uint64_t samples_;
  bool shuffle_;
  std::uint64_t seed_;
  unsigned half_bits_;
};

}  // namespace slipstream
