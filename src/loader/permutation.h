#pragma once

#include <cstdint>

namespace slipstream {

/// The purpose of random bits for the order of samples. Each purpose has its own bits.
enum class OrderPurpose : std::uint32_t { places = 0, classes = 1, members = 2, weights = 3 };

/// Identifies a permutation, or a sequence of random words. `word2` and `word3` are those words of
/// Philox's counter.
struct OrderKey {
  std::uint64_t seed = 0;
  OrderPurpose purpose = OrderPurpose::places;
  std::uint32_t word2 = 0;
  std::uint32_t word3 = 0;
};

/// Returns word 0 of philox({word0, round | purpose << 2, word2, word3}, {~seed[31:0],
/// ~seed[63:32]}).
std::uint32_t order_word(const OrderKey& key, std::uint32_t word0, unsigned round);

/// Returns the position of `index` in a keyed permutation of [0, size), in O(1). The permutation is
/// a four-round Feistel network over the next even number of bits, at least eight, because fewer
/// bits are visibly not uniform. It is repeated until the result is below `size` (Black and
/// Rogaway, "Ciphers with arbitrary finite domains", 2002). Round r uses the low bits of
/// order_word(key, right half, r). REQUIRES: index < size
std::uint64_t permuted(std::uint64_t index, std::uint64_t size, const OrderKey& key);

/// Returns the position of `index` in another permutation of [0, size), which is faster for small
/// sizes: permuted() has at least 256 positions and repeats often if `size` is small. Up to 32
/// positions are shuffled as a whole, by order_word(key, i, 0) for i from size - 1 down to 1.
std::uint64_t permuted_few(std::uint64_t index, std::uint64_t size, const OrderKey& key);

}  // namespace slipstream
