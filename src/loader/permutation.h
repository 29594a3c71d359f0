#pragma once

#include <cstdint>

namespace slipstream {

/// What a draw for the order of samples is for, so that no two share random bits.
enum class OrderPurpose : std::uint32_t { places = 0, classes = 1, members = 2, weights = 3 };

/// Names a permutation, or a row of words. `word2` and `word3` are those of Philox's counter.
struct OrderKey {
  std::uint64_t seed = 0;
  OrderPurpose purpose = OrderPurpose::places;
  std::uint32_t word2 = 0;
  std::uint32_t word3 = 0;
};

/// Word 0 of philox({word0, round | purpose << 2, word2, word3}, {~seed[31:0], ~seed[63:32]}).
std::uint32_t order_word(const OrderKey& key, std::uint32_t word0, unsigned round);

/// Where a keyed permutation of [0, size) puts `index`, in O(1): a four-round Feistel network over
/// the next even number of bits, at least eight (fewer are visibly not uniform), walked until it
/// lands inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). Round r takes
/// the low bits of order_word(key, right half, r). REQUIRES: index < size
std::uint64_t permuted(std::uint64_t index, std::uint64_t size, const OrderKey& key);

/// The same for another permutation, quicker where size is small: the walk above is long then. Up
/// to 32 are shuffled as a whole, by order_word(key, i, 0) for i from size - 1 down to 1.
std::uint64_t permuted_few(std::uint64_t index, std::uint64_t size, const OrderKey& key);

}  // namespace slipstream
