#pragma once

#include <array>
#include <cstdint>

namespace slipstream {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): 128 random
/// bits from a 128-bit counter and a 64-bit key, integers only, equal on every machine.
using PhiloxBlock = std::array<std::uint32_t, 4>;
PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key);

/// Names a stream of random numbers. A draw is a pure function of it, so it does not depend on
/// batch size, worker, lane, plan or number of GPUs.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint64_t sample = 0;      ///< sample id, below 2^48
  std::uint16_t occurrence = 0;  ///< tells the times apart that it is taken in the epoch; 0 if once
  std::uint32_t operation = 0;   ///< index in the chain, below 64

  /// Block `index` (below 2^26) of this stream. Bit layout:
  ///   key     = { seed[31:0], seed[63:32] }
  ///   counter = { sample[31:0], sample[47:32] | occurrence << 16, epoch, index | operation << 26 }
  PhiloxBlock block(std::uint32_t index) const;
};

/// Draws 32-bit words one after the other from one RandomKey.
class RandomStream {
 public:
  explicit RandomStream(const RandomKey& key) : key_(key) {}

  std::uint32_t next();
  /// Uniform over [0, bound), without bias (Lemire, "Fast random integer generation in an
  /// interval", 2019). REQUIRES: bound > 0
  std::uint32_t below(std::uint32_t bound);
  /// Uniform over the 2^24 multiples of 2^-24 in [0, 1): exact in float32.
  float uniform();

 private:
  RandomKey key_;
  PhiloxBlock block_{};
  std::uint32_t next_word_ = 0;
};

}  // namespace slipstream
