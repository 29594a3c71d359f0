#include "slipstream/philox.h"

#include "slipstream/error.h"

namespace slipstream {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr std::uint32_t kBlocks = 1u << 26;

constexpr std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

}  // namespace

PhiloxBlock philox(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1),
               high(product0) ^ counter[3] ^ key[1], low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

PhiloxBlock RandomKey::block(std::uint32_t index) const {
  return philox({low(sample), (high(sample) & 0xFFFF) | std::uint32_t{occurrence} << 16, epoch,
                 index | operation << 26},
                {low(seed), high(seed)});
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
  if (low(product) < bound) {
    const std::uint32_t biased = (0u - bound) % bound;
    while (low(product) < biased) product = std::uint64_t{next()} * bound;
  }
  return high(product);
}

float RandomStream::uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }

}  // namespace slipstream
