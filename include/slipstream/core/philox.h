#pragma once

#include <array>
#include <cstdint>

#include "slipstream/core/host_device.h"

namespace slipstream {

/// 128 bits: a Philox counter, or the random bits generated from it.
using PhiloxBlock = std::array<std::uint32_t, 4>;
/// Generates 128 random bits from a 128-bit counter and a 64-bit key with Philox4x32-10. It uses
/// only integers, so the result is equal on every machine. Source: Salmon et al., "Parallel random
/// numbers: as easy as 1, 2, 3", SC'11.
PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key);

/// Identifies a sequence of random numbers. Each number is a pure function of its key and its index
/// in the sequence, so it does not depend on batch size, worker, lane, plan or number of GPUs.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint64_t sample = 0;  ///< sample id, below 2^48
  /// Distinguishes the uses of a sample in one epoch (docs/random.md); 0 if it is used once.
  std::uint16_t occurrence = 0;
  std::uint32_t operation = 0;  ///< index in the chain, below 64

  /// Returns block `index` (below 2^26) of this sequence. Bit layout:
  ///   key     = { seed[31:0], seed[63:32] }
  ///   counter = { sample[31:0], sample[47:32] | occurrence << 16, epoch, index | operation << 26 }
  PhiloxBlock block(std::uint32_t index) const;
};

/// A PhiloxBlock for device code, which cannot use std::array's member functions.
struct PhiloxWords {
  std::uint32_t word[4];
};

/// Generates the same bits as philox(), in host code and device code.
SLIPSTREAM_HOST_DEVICE inline PhiloxWords philox_words(PhiloxWords counter, std::uint32_t key0,
                                                       std::uint32_t key1) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter.word[0];
    const std::uint64_t product1 = kMultiplier1 * counter.word[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
               static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

/// A RandomKey converted to Philox words, without padding, so that it can be copied to the device.
struct RandomWords {
  std::uint32_t counter[4];  ///< the counter for index 0
  std::uint32_t key[2];
};
/// Converts `key` to Philox words.
RandomWords random_words(const RandomKey& key);

/// Generates the same bits as RandomKey::block(), in host code and device code.
SLIPSTREAM_HOST_DEVICE inline PhiloxWords random_block(const RandomWords& from,
                                                       std::uint32_t index) {
  const std::uint32_t* counter = from.counter;
  return philox_words({{counter[0], counter[1], counter[2], counter[3] | index}}, from.key[0],
                      from.key[1]);
}

/// Generates consecutive 32-bit words from one RandomKey. Not thread-safe.
class RandomStream {
 public:
  explicit RandomStream(const RandomKey& key) : key_(key) {}

  /// Returns the next word, uniform over all 32-bit values.
  std::uint32_t next();
  /// Returns an integer uniform over [0, bound), without modulo bias. Source: Lemire, "Fast random
  /// integer generation in an interval", 2019.
  /// REQUIRES: bound > 0
  std::uint32_t below(std::uint32_t bound);
  /// Returns a value uniform over the 2^24 multiples of 2^-24 in [0, 1), which float32 represents
  /// exactly.
  float uniform();

 private:
  RandomKey key_;
  PhiloxBlock block_{};
  std::uint32_t next_word_ = 0;
};

}  // namespace slipstream
