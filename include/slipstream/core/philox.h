#pragma once

#include <array>
#include <cstdint>

#include "slipstream/core/host_device.h"

namespace slipstream {

/// 128 bits: a counter of Philox, or the random bits that it makes of one.
using PhiloxBlock = std::array<std::uint32_t, 4>;
/// 128 random bits made of a 128-bit counter and a 64-bit key by Philox4x32-10, with integers only,
/// so equal on every machine. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
/// SC'11.
PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key);

/// Names a sequence of random numbers. A draw is a pure function of its key and its place in the
/// sequence, so it does not depend on batch size, worker, lane, plan or number of GPUs.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint64_t sample = 0;      ///< sample id, below 2^48
  std::uint16_t occurrence = 0;  ///< tells apart the times that an epoch takes the sample; 0: once
  std::uint32_t operation = 0;   ///< index in the chain, below 64

  /// Block `index` (below 2^26) of this sequence. Bit layout:
  ///   key     = { seed[31:0], seed[63:32] }
  ///   counter = { sample[31:0], sample[47:32] | occurrence << 16, epoch, index | operation << 26 }
  PhiloxBlock block(std::uint32_t index) const;
};

/// A PhiloxBlock as device code holds it.
struct PhiloxWords {
  std::uint32_t word[4];
};

/// The same bits as philox(), for host code and device code.
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

/// A RandomKey as words of Philox, without padding: device code draws from it.
struct RandomWords {
  std::uint32_t counter[4];  ///< with index 0
  std::uint32_t key[2];
};
/// The words of `key`.
RandomWords random_words(const RandomKey& key);

/// The same bits as RandomKey::block(), for host code and device code.
SLIPSTREAM_HOST_DEVICE inline PhiloxWords random_block(const RandomWords& from,
                                                       std::uint32_t index) {
  const std::uint32_t* counter = from.counter;
  return philox_words({{counter[0], counter[1], counter[2], counter[3] | index}}, from.key[0],
                      from.key[1]);
}

/// Draws 32-bit words one after the other from one RandomKey.
class RandomStream {
 public:
  explicit RandomStream(const RandomKey& key) : key_(key) {}

  /// Uniform over all 32-bit words.
  std::uint32_t next();
  /// Uniform over the whole numbers from 0 to bound - 1, without bias. Source: Lemire, "Fast random
  /// integer generation in an interval", 2019. REQUIRES: bound > 0
  std::uint32_t below(std::uint32_t bound);
  /// Uniform over the 2^24 multiples of 2^-24 in [0, 1): exact in float32.
  float uniform();

 private:
  RandomKey key_;
  PhiloxBlock block_{};
  std::uint32_t next_word_ = 0;
};

}  // namespace slipstream
