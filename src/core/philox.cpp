#include "slipstream/core/philox.h"

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

// random_words() puts the operation into the upper 6 bits of the last counter word. The lower 26
// bits are left for the index of the block.
constexpr std::uint32_t kBlocks = 1u << 26;

constexpr std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

constexpr PhiloxBlock as_block(const PhiloxWords& words) {
  return {words.word[0], words.word[1], words.word[2], words.word[3]};
}

}  // namespace

PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  return as_block(philox_words({counter[0], counter[1], counter[2], counter[3]}, key[0], key[1]));
}

PhiloxBlock RandomKey::block(std::uint32_t index) const {
  return as_block(random_block(random_words(*this), index));
}

RandomWords random_words(const RandomKey& key) {
  return {{low(key.sample), (high(key.sample) & 0xFFFF) | std::uint32_t{key.occurrence} << 16,
           key.epoch, key.operation << 26},
          {low(key.seed), high(key.seed)}};
}

std::uint32_t RandomStream::next() {
  const std::uint32_t word = next_word_ % 4;
  if (word == 0) {
    ensure(next_word_ / 4 < kBlocks, "a random stream has 2^28 words");
    block_ = key_.block(next_word_ / 4);
  }
  ++next_word_;
  return block_[word];
}

std::uint32_t RandomStream::below(std::uint32_t bound) {
  std::uint64_t product = std::uint64_t{next()} * bound;
  // Lemire's rejection: only products whose low word is below 2^32 mod bound are biased. The
  // division for that limit is skipped unless the low word is below `bound`.
  if (low(product) < bound) {
    const std::uint32_t biased = (0u - bound) % bound;
    while (low(product) < biased) product = std::uint64_t{next()} * bound;
  }
  return high(product);
}

// float32 has a significand of 24 bits, so 24 bits give every value exactly and never round up to
// 1.
float RandomStream::uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }

}  // namespace slipstream
