#include "slipstream/core/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "slipstream/core/philox.h"

namespace slipstream {
namespace {

TEST(StudentT, MatchesTabulatedQuantiles) {
  EXPECT_NEAR(student_t_95(1), 12.7062, 5e-5);
  EXPECT_NEAR(student_t_95(2), 4.3027, 5e-5);
  EXPECT_NEAR(student_t_95(5), 2.5706, 5e-5);
  EXPECT_NEAR(student_t_95(10), 2.2281, 5e-5);
  EXPECT_NEAR(student_t_95(15), 2.1314, 5e-5);
  EXPECT_NEAR(student_t_95(30), 2.0423, 5e-5);
  EXPECT_NEAR(student_t_95(31), 2.0395, 5e-5);
  EXPECT_NEAR(student_t_95(40), 2.0211, 5e-5);
  EXPECT_NEAR(student_t_95(60), 2.0003, 5e-5);
  EXPECT_NEAR(student_t_95(120), 1.9799, 5e-5);
  EXPECT_NEAR(student_t_95(1'000'000), 1.95996, 1e-5);
}

// Checks each quantile by integrating Student's density up to it.
TEST(StudentT, TableMatchesExactQuantiles) {
  for (std::size_t degrees = 1; degrees <= 60; ++degrees) {
    const auto v = static_cast<double>(degrees);
    const double scale =
        std::exp(std::lgamma((v + 1) / 2) - std::lgamma(v / 2)) / std::sqrt(v * std::acos(-1.0));
    constexpr int kSteps = 20000;
    const double h = student_t_95(degrees) / kSteps;
    double sum = 0;
    for (int i = 0; i <= kSteps; ++i) {
      const double x = i * h;
      const double weight = i == 0 || i == kSteps ? 1 : (i % 2 == 1 ? 4 : 2);
      sum += weight * std::pow(1 + x * x / v, -(v + 1) / 2);
    }
    EXPECT_NEAR(scale * sum * h / 3, 0.475, 1e-7) << degrees;
  }
}

TEST(StudentT, ZeroDegreesOfFreedomThrows) { EXPECT_THROW(student_t_95(0), std::logic_error); }

TEST(MeanInterval, MatchesHandComputedInterval) {
  // Mean 5, standard deviation sqrt(2.5), standard error sqrt(0.5), t(4) = 2.7764.
  const std::vector<double> values = {3, 4, 5, 6, 7};
  const Measured mean = mean_interval(values, "ms");
  EXPECT_DOUBLE_EQ(mean.value, 5);
  EXPECT_NEAR(mean.low, 5 - 2.776445 * std::sqrt(0.5), 1e-5);
  EXPECT_NEAR(mean.high, 5 + 2.776445 * std::sqrt(0.5), 1e-5);
  EXPECT_EQ(mean.unit, "ms");
  EXPECT_EQ(mean.n, 5u);
}

TEST(MeanInterval, SingleValueGivesIntervalFromZeroToTwice) {
  const Measured mean = mean_interval(std::vector<double>{3}, "ms");
  EXPECT_EQ(mean.low, 0);
  EXPECT_EQ(mean.high, 6);
  EXPECT_EQ(mean.n, 1u);
}

TEST(MeanInterval, SingleNegativeValueKeepsLowBelowHigh) {
  const Measured mean = mean_interval(std::vector<double>{-3}, "ms");
  EXPECT_EQ(mean.low, -6);
  EXPECT_EQ(mean.high, 0);
}

TEST(MeanInterval, EmptyInputThrows) {
  EXPECT_THROW(mean_interval({}, "ms"), std::logic_error);
  EXPECT_THROW(median_interval({}, "ms"), std::logic_error);
  EXPECT_THROW(rate_from_durations({}, "1/s"), std::logic_error);
}

TEST(MeanInterval, CoversTheTrueMeanIn95PercentOfTrials) {
  RandomStream random({.seed = 1});
  int held = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> values(8);
    for (double& value : values) {
      value = 0;
      for (int i = 0; i < 12; ++i) value += random.uniform();
    }
    const Measured mean = mean_interval(values, "");
    held += mean.low <= 6 && 6 <= mean.high;
  }
  EXPECT_NEAR(held, 1900, 40);
}

std::vector<double> one_to(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  std::reverse(values.begin(), values.end());
  return values;
}

TEST(MedianInterval, RanksMatchTheBinomialTable) {
  const std::vector<std::array<double, 3>> rows = {
      // n, low rank, high rank
      {6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {10, 2, 9}, {15, 4, 12}, {20, 6, 15}, {100, 40, 61},
  };
  for (const auto& [n, low, high] : rows) {
    const Measured median = median_interval(one_to(static_cast<int>(n)), "us");
    EXPECT_EQ(median.value, (n + 1) / 2);
    EXPECT_EQ(median.low, low) << n;
    EXPECT_EQ(median.high, high) << n;
    EXPECT_EQ(median.n, static_cast<std::size_t>(n));
  }
}

TEST(MedianInterval, FewerThanSixValuesGiveTheirRange) {
  for (int n = 1; n < 6; ++n) {
    const Measured median = median_interval(one_to(n), "us");
    EXPECT_EQ(median.low, 1);
    EXPECT_EQ(median.high, n);
  }
}

TEST(MedianInterval, ManyValuesDoNotUnderflow) {
  const Measured median = median_interval(one_to(10000), "us");
  EXPECT_NEAR(median.low, 5000.5 - 98, 1.5);
  EXPECT_NEAR(median.high, 5000.5 + 98, 1.5);
}

TEST(RateFromDurations, IsTheReciprocalMean) {
  const Measured rate = rate_from_durations(std::vector<double>{0.1, 0.3}, "steps/s");
  EXPECT_DOUBLE_EQ(rate.value, 5);
  EXPECT_EQ(rate.unit, "steps/s");
  EXPECT_EQ(rate.n, 2u);
  EXPECT_GE(rate.low, 0);
}

TEST(RateFromDurations, ConstantDurationsGiveZeroWidthInterval) {
  const Measured rate = rate_from_durations(std::vector<double>(64, 0.25), "1/s");
  EXPECT_DOUBLE_EQ(rate.value, 4);
  EXPECT_DOUBLE_EQ(rate.low, 4);
  EXPECT_DOUBLE_EQ(rate.high, 4);
  EXPECT_EQ(rate.n, 16u);
}

TEST(RateFromDurations, IntervalIsComputedFromBlockMeans) {
  // Four blocks of two with means 1, 2, 3, 2: mean 2, standard error sqrt(2 / 3 / 4).
  const std::vector<double> durations = {0.5, 1.5, 1, 3, 3, 3, 4, 0};
  const Measured rate = rate_from_durations(durations, "1/s", 4);
  const double relative = 3.182446 * std::sqrt(2.0 / 3 / 4) / 2;
  EXPECT_DOUBLE_EQ(rate.value, 0.5);
  EXPECT_NEAR(rate.low, std::max(0.0, 0.5 * (1 - relative)), 1e-6);
  EXPECT_NEAR(rate.high, 0.5 * (1 + relative), 1e-6);
  EXPECT_EQ(rate.n, 4u);
}

TEST(RateFromDurations, EveryDurationIsIncluded) {
  std::vector<double> durations(37, 1.0);
  durations.back() = 5;
  const Measured rate = rate_from_durations(durations, "1/s");
  EXPECT_DOUBLE_EQ(rate.value, 37.0 / 41.0);
  EXPECT_GT(rate.high, rate.low);
}

TEST(RateFromDurations, SingleDurationGivesIntervalFromZeroToTwice) {
  const Measured rate = rate_from_durations(std::vector<double>{0.5}, "1/s");
  EXPECT_EQ(rate.low, 0);
  EXPECT_EQ(rate.high, 4);
}

TEST(Ratio, IntervalCoversRatiosOfBothIntervals) {
  const Measured gain = ratio({3, 2, 4, "1/s", 9}, {2, 1, 4, "1/s", 5});
  EXPECT_EQ(gain.value, 1.5);
  EXPECT_EQ(gain.low, 0.5);
  EXPECT_EQ(gain.high, 4);
  EXPECT_EQ(gain.unit, "1");
  EXPECT_EQ(gain.n, 5u);
}

TEST(Ratio, DenominatorIntervalWithZeroHasInfiniteHighEnd) {
  const Measured gain = ratio({3, 2, 4, "1/s", 9}, {2, 0, 4, "1/s", 5});
  EXPECT_EQ(gain.value, 1.5);
  EXPECT_EQ(gain.low, 0.5);
  EXPECT_EQ(gain.high, std::numeric_limits<double>::infinity());
  EXPECT_EQ(gain.n, 5u);
}

TEST(Ratio, ZeroDenominatorHasNoSamples) {
  EXPECT_EQ(ratio({3, 2, 4, "", 9}, {0, 0, 4, "", 5}).n, 0u);
}

}  // namespace
}  // namespace slipstream
