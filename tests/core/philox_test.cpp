#include "slipstream/core/philox.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace slipstream {
namespace {

constexpr std::uint32_t kOnes = 0xFFFFFFFF;

// Known-answer tests of Random123 1.14 (kat_vectors, philox4x32 10).
TEST(Philox, MatchesRandom123) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxBlock{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (PhiloxBlock{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(RandomKey, BitLayoutIsAsDocumented) {
  const RandomKey key = {.seed = 0x123456789ABCDEF0,
                         .epoch = 3,
                         .sample = 0xFEDCBA987654,
                         .occurrence = 2,
                         .operation = 5};
  EXPECT_EQ(key.block(7),
            philox({0xBA987654, 0x0002FEDC, 3, 7u | 5u << 26}, {0x9ABCDEF0, 0x12345678}));
}

TEST(RandomKey, MatchesGoldenValues) {
  const RandomKey key = {.seed = 0x123456789ABCDEF0,
                         .epoch = 3,
                         .sample = 0xFEDCBA987654,
                         .occurrence = 2,
                         .operation = 5};
  EXPECT_EQ(key.block(7), (PhiloxBlock{0xFEF60FEB, 0x163A982E, 0x5ECA44B9, 0xC175DB91}));
  const RandomKey first = {.seed = 1};
  EXPECT_EQ(first.block(0), (PhiloxBlock{0xE3E80670, 0xE50A0EBC, 0x95F222C0, 0xB615AA27}));
  EXPECT_EQ(first.block(1), (PhiloxBlock{0x127BEE41, 0x1E047488, 0x48842B20, 0x0A393496}));
}

TEST(RandomKey, EveryKeyFieldSelectsAnotherStream) {
  const RandomKey key = {.seed = 9, .epoch = 1, .sample = 1, .occurrence = 1, .operation = 1};
  std::set<PhiloxBlock> blocks = {key.block(0), key.block(1)};
  for (int part = 0; part < 5; ++part) {
    RandomKey other = key;
    other.seed += part == 0 ? std::uint64_t{1} << 32 : 0;
    other.epoch += part == 1;
    other.sample += part == 2 ? std::uint64_t{1} << 40 : 0;
    other.occurrence = static_cast<std::uint16_t>(other.occurrence + (part == 3));
    other.operation += part == 4;
    blocks.insert(other.block(0));
  }
  EXPECT_EQ(blocks.size(), 7u);
}

TEST(RandomStream, NextReturnsWordsOfBlocksInOrder) {
  const RandomKey key = {.seed = 1};
  RandomStream stream(key);
  for (std::uint32_t block = 0; block < 3; ++block) {
    for (const std::uint32_t word : key.block(block)) EXPECT_EQ(stream.next(), word);
  }
}

TEST(RandomStream, BelowIsUniform) {
  RandomStream stream({.seed = 2});
  std::map<std::uint32_t, int> counts;
  for (int i = 0; i < 60000; ++i) ++counts[stream.below(6)];
  EXPECT_EQ(counts.size(), 6u);
  for (const auto& [value, count] : counts) {
    EXPECT_LT(value, 6u);
    EXPECT_NEAR(count, 10000, 500);
  }
}

TEST(RandomStream, BelowIsUnbiasedForLargeBounds) {
  // Of 2^32 words, only 3 * 2^30 are usable for a bound of 3 * 2^30: a quarter is sampled again.
  constexpr std::uint32_t kBound = 3u << 30;
  RandomStream stream({.seed = 3});
  int low = 0;
  for (int i = 0; i < 30000; ++i) low += stream.below(kBound) < (1u << 30);
  EXPECT_NEAR(low, 10000, 500);
}

TEST(RandomStream, BelowOneIsZero) {
  RandomStream stream({.seed = 4});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(stream.below(1), 0u);
}

TEST(RandomStream, UniformIsAMultipleOfTwoToTheMinus24) {
  RandomStream stream({.seed = 5});
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const float value = stream.uniform();
    ASSERT_GE(value, 0.0f);
    ASSERT_LT(value, 1.0f);
    const float scaled = value * 0x1p24f;
    ASSERT_EQ(scaled, static_cast<float>(static_cast<std::uint32_t>(scaled)));
    sum += value;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

TEST(RandomStream, UniformUsesTheHighBits) {
  RandomStream words({.seed = 6});
  RandomStream floats({.seed = 6});
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(floats.uniform(), static_cast<float>(words.next() >> 8) / 16777216.0f);
  }
}

}  // namespace
}  // namespace slipstream
