#include "loader/permutation.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include "slipstream/core/philox.h"

namespace slipstream {
namespace {

constexpr unsigned kRounds = 4;
constexpr unsigned kRoundBits = 2;
constexpr unsigned kMinHalfBits = 4;
constexpr std::size_t kFew = 32;

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

}  // namespace

std::uint32_t order_word(const OrderKey& key, std::uint32_t word0, unsigned round) {
  const std::uint32_t word1 = round | static_cast<std::uint32_t>(key.purpose) << kRoundBits;
  // The seed is inverted so that these Philox keys differ from those of RandomKey.
  const std::uint64_t seed = ~key.seed;
  return philox({word0, word1, key.word2, key.word3}, {low(seed), high(seed)})[0];
}

std::uint64_t permuted(std::uint64_t index, std::uint64_t size, const OrderKey& key) {
  const unsigned half_bits =
      std::max(kMinHalfBits, (static_cast<unsigned>(std::bit_width(size - 1)) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  do {
    std::uint64_t left = index >> half_bits;
    std::uint64_t right = index & mask;
    for (unsigned round = 0; round < kRounds; ++round) {
      left = std::exchange(right, left ^ (order_word(key, low(right), round) & mask));
    }
    index = left << half_bits | right;
    // The network permutes a power of two of positions. Applying it again until the result is in
    // range keeps it a permutation of [0, size).
  } while (index >= size);
  return index;
}

std::uint64_t permuted_few(std::uint64_t index, std::uint64_t size, const OrderKey& key) {
  if (size > kFew) return permuted(index, size, key);
  std::array<std::uint8_t, kFew> order{};
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  for (std::uint64_t i = size - 1; i > 0; --i) {
    const std::uint64_t drawn = order_word(key, low(i), 0);
    // drawn * (i + 1) / 2^32 is a number from 0 to i.
    std::swap(order[i], order[drawn * (i + 1) >> 32]);
  }
  return order[index];
}

}  // namespace slipstream
