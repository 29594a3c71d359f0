#include "core/fingerprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace slipstream {
namespace {

std::vector<unsigned char> counting(std::size_t bytes) {
  std::vector<unsigned char> data(bytes);
  std::iota(data.begin(), data.end(), static_cast<unsigned char>(0));
  return data;
}

std::uint64_t of(const std::vector<unsigned char>& data) {
  return fingerprint(data.data(), data.size());
}

// The values were computed by a separate implementation in Python, from the definition in the
// header.
TEST(FingerprintTest, MatchesGoldenValues) {
  EXPECT_EQ(of(counting(0)), 0xb4d055fcf2cbbd7bULL);
  EXPECT_EQ(of(counting(1)), 0xbc478d691e90d6b1ULL);
  EXPECT_EQ(of(counting(7)), 0x6da6d018c66dafeaULL);
  EXPECT_EQ(of(counting(8)), 0xa4d002659b935d6bULL);
  EXPECT_EQ(of(counting(9)), 0xf1509743057b2b26ULL);
  EXPECT_EQ(of(counting(16)), 0xe269eb0c1046231eULL);
  EXPECT_EQ(of(counting(70)), 0x33b363bb6c38d89bULL);
  EXPECT_EQ(of(counting(1000)), 0x5061650bd1da7bb3ULL);
  EXPECT_EQ(chain64(1, 2), 0x975835de1c9756ceULL);
}

// First outputs of SplitMix64 seeded with 1234567 (Rosetta Code, "Pseudo-random
// numbers/Splitmix64").
TEST(FingerprintTest, Mix64MatchesSplitMix64) {
  EXPECT_EQ(mix64(1234567 + kSplitMixStep), 6457827717110365317ULL);
  EXPECT_EQ(mix64(1234567 + 2 * kSplitMixStep), 3203168211198807973ULL);
}

TEST(FingerprintTest, EveryLengthAndByteChangesTheDigest) {
  std::set<std::uint64_t> seen;
  std::size_t cases = 0;
  for (std::size_t bytes = 0; bytes <= 70; ++bytes, ++cases) {
    seen.insert(of(std::vector<unsigned char>(bytes)));
  }
  for (std::size_t i = 0; i < 70; ++i, ++cases) {
    std::vector<unsigned char> data(70);
    data[i] = 1;
    seen.insert(of(data));
  }
  EXPECT_EQ(seen.size(), cases);
}

TEST(FingerprintTest, WordOrderChangesTheDigest) {
  std::vector<unsigned char> data = counting(64);
  const std::uint64_t before = of(data);
  std::swap_ranges(data.begin(), data.begin() + 8, data.begin() + 8);
  EXPECT_NE(of(data), before);
}

TEST(FingerprintTest, AlignmentDoesNotChangeTheDigest) {
  const std::vector<unsigned char> data = counting(50);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    std::vector<unsigned char> shifted(shift);
    shifted.insert(shifted.end(), data.begin(), data.end());
    EXPECT_EQ(fingerprint(shifted.data() + shift, data.size()), of(data));
  }
}

TEST(FingerprintTest, ChainOrderChangesTheResult) {
  EXPECT_NE(chain64(chain64(0, 1), 2), chain64(chain64(0, 2), 1));
}

TEST(FingerprintTest, HexHasSixteenDigits) {
  EXPECT_EQ(to_hex(0), "0000000000000000");
  EXPECT_EQ(to_hex(0x0123456789abcdefULL), "0123456789abcdef");
}

}  // namespace
}  // namespace slipstream
