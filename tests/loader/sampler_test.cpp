#include "loader/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace slipstream {
namespace {

std::vector<std::uint64_t> list_samples(const Sampler& sampler, std::uint32_t epoch) {
  std::vector<std::uint64_t> order(sampler.size());
  for (std::uint64_t i = 0; i < order.size(); ++i) order[i] = sampler.at(epoch, i);
  return order;
}

TEST(Sampler, UnshuffledIsInOrder) {
  const Sampler sampler(100, false, 1);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(sampler.at(7, i), i);
}

TEST(Sampler, EverySampleIsReturnedOncePerEpoch) {
  for (std::uint64_t samples = 1; samples <= 2000; samples += samples < 300 ? 1 : 17) {
    const Sampler sampler(samples, true, samples);
    std::vector<bool> seen(samples);
    for (const std::uint64_t sample : list_samples(sampler, 3)) {
      ASSERT_LT(sample, samples);
      ASSERT_FALSE(seen[sample]) << samples;
      seen[sample] = true;
    }
  }
}

TEST(Sampler, LargeSizesReturnDistinctIndicesInRange) {
  for (const std::uint64_t samples :
       {(std::uint64_t{1} << 40) + 1, std::uint64_t{1} << 48, (std::uint64_t{1} << 63) + 12345}) {
    const Sampler sampler(samples, true, 7);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const std::uint64_t sample = sampler.at(0, i * (samples / 2000));
      EXPECT_LT(sample, samples);
      seen.insert(sample);
    }
    EXPECT_EQ(seen.size(), 2000u);
  }
}

// The values were computed by an independent implementation in Python.
TEST(Sampler, MatchesGoldenValues) {
  using Order = std::vector<std::uint64_t>;
  EXPECT_EQ(list_samples(Sampler(10, true, 1), 0), (Order{7, 2, 3, 1, 4, 9, 5, 0, 6, 8}));
  EXPECT_EQ(list_samples(Sampler(10, true, 1), 1), (Order{2, 4, 8, 3, 7, 6, 9, 0, 1, 5}));
  const Sampler image_net(1281167, true, 42);
  EXPECT_EQ(image_net.at(3, 0), 198563u);
  EXPECT_EQ(image_net.at(3, 1281166), 1030684u);
  const Sampler large((std::uint64_t{1} << 40) + 1, true, 7);
  EXPECT_EQ(large.at(2, std::uint64_t{1} << 40), 13847057720u);
  const Sampler largest((std::uint64_t{1} << 63) + 12345, true, 7);
  EXPECT_EQ(largest.at(1, (std::uint64_t{1} << 63) + 12344), 6048227734047009182u);
}

TEST(Sampler, EpochsAndSeedsDiffer) {
  const auto order = list_samples(Sampler(100, true, 1), 0);
  EXPECT_NE(list_samples(Sampler(100, true, 1), 1), order);
  EXPECT_NE(list_samples(Sampler(100, true, 2), 0), order);
  EXPECT_NE(list_samples(Sampler(100, true, std::uint64_t{1} << 32 | 1), 0), order);
  EXPECT_EQ(list_samples(Sampler(100, true, 1), 0), order);
}

// Each sample is equally frequent at each position: chi-squared per degree of freedom is near 1.
TEST(Sampler, PositionsAreUniform) {
  for (const std::uint64_t samples : {2u, 3u, 5u, 10u, 17u, 64u, 100u}) {
    const Sampler sampler(samples, true, 12345);
    constexpr std::uint32_t kEpochs = 2000;
    std::vector<double> counts(samples * samples);
    for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
      for (std::uint64_t i = 0; i < samples; ++i) ++counts[i * samples + sampler.at(epoch, i)];
    }
    const double expected = static_cast<double>(kEpochs) / static_cast<double>(samples);
    double chi_squared = 0;
    for (const double count : counts) {
      chi_squared += (count - expected) * (count - expected) / expected;
    }
    const auto degrees = static_cast<double>((samples - 1) * (samples - 1));
    EXPECT_LT(chi_squared / degrees, 1 + 5 * std::sqrt(2 / degrees)) << samples;
  }
}

TEST(Sampler, NeighborsAreNotKeptTogether) {
  const Sampler sampler(100000, true, 3);
  int neighbors = 0;
  for (std::uint64_t i = 0; i + 1 < 100000; ++i) {
    neighbors += sampler.at(0, i + 1) == sampler.at(0, i) + 1;
  }
  EXPECT_LT(neighbors, 10);
}

TEST(Sampler, ZeroSamplesThrow) { EXPECT_THROW(Sampler(0, true, 1), std::logic_error); }

}  // namespace
}  // namespace slipstream
