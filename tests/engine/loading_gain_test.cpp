#include "engine/loading_gain.h"

#include <gtest/gtest.h>

namespace slipstream::test {
namespace {

constexpr std::size_t kGainBatchSize = 4;
constexpr unsigned kWorkers = 2;

/// A run whose batches take both workers 4 ms, and the longer of two lanes 3 ms.
class LoadingGainTest : public testing::Test {
 protected:
  /// Takes a snapshot after `steps` steps of `step_s` each and `loaded` batches.
  void snapshot(std::uint64_t steps, std::uint64_t loaded, double step_s = 0.004) {
    const double done = static_cast<double>(steps);
    const std::uint64_t samples = loaded * kGainBatchSize;
    const double worked_s = 0.004 * kWorkers * static_cast<double>(loaded);
    const std::vector<StepCounter> counters = {{"read", samples, worked_s / 4, 0, 0},
                                               {"collate", samples, worked_s * 3 / 4, 0, 0}};
    std::vector<LaneResult> lanes(2);
    lanes[0].busy_s = 0.001 * done;
    lanes[1].busy_s = 0.003 * done;
    const double end_s = end_s_ + step_s * (done - static_cast<double>(steps_));
    for (LaneResult& lane : lanes) lane.last_intervals = {{steps - 1, end_s - 0.001, end_s}};
    gain_.snapshot(steps - 1, counters, lanes);
    steps_ = steps;
    end_s_ = end_s;
  }
  std::optional<Gain> gain() const { return gain_.gain(kGainBatchSize, kWorkers); }

  LoadingGain gain_;
  std::uint64_t steps_ = 0;
  double end_s_ = 0;
};

TEST_F(LoadingGainTest, IsLoadTimePlusLongestLaneOverStepTime) {
  snapshot(16, 20, 0.020);  // the first part is a warm-up
  snapshot(32, 36);
  snapshot(48, 52);
  snapshot(64, 68);
  const auto measured = gain();
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->part, "loading");
  EXPECT_NEAR(measured->predicted.value, 7.0 / 4, 1e-9);
  EXPECT_NEAR(measured->measured.value, 7.0 / 4, 1e-9);
  EXPECT_EQ(measured->measured.n, 32U);
  snapshot(80, 84, 0.005);
  snapshot(96, 100, 0.005);
  EXPECT_NEAR(gain()->measured.value, 7.0 / 5, 1e-9) << "the last two parts count";
}

TEST_F(LoadingGainTest, FewerThanTwoSnapshotsGiveNoGain) {
  EXPECT_FALSE(gain());
  snapshot(16, 20);
  EXPECT_FALSE(gain());
  snapshot(32, 36);
  EXPECT_EQ(gain()->measured.n, 16U);
}

TEST_F(LoadingGainTest, PrefetchedBatchesGiveNoGain) {
  snapshot(16, 40);
  snapshot(32, 48);
  EXPECT_FALSE(gain());
  snapshot(48, 56);
  EXPECT_FALSE(gain());
}

TEST_F(LoadingGainTest, GainAbovePredictionIsClampedIfNoiseElseIgnored) {
  snapshot(16, 20);
  snapshot(32, 36, 0.00395);
  EXPECT_NEAR(gain()->measured.value, 7.0 / 4, 1e-9)
      << "the excess is within the noise of the clocks";
  snapshot(48, 52, 0.003);
  snapshot(64, 68, 0.003);
  const auto of_looks_before = gain();
  ASSERT_TRUE(of_looks_before);
  EXPECT_EQ(of_looks_before->measured.n, 16U);
}

TEST_F(LoadingGainTest, LastSnapshotAfterLoadingEndedIsIgnored) {
  snapshot(16, 20);
  snapshot(32, 36);
  snapshot(48, 48);
  const auto measured = gain();
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->measured.n, 16U);
  EXPECT_NEAR(measured->measured.value, 7.0 / 4, 1e-9);
}

TEST_F(LoadingGainTest, SecondSnapshotAfterLoadingEndedGivesNoGain) {
  snapshot(16, 20);
  snapshot(32, 32);
  EXPECT_FALSE(gain());
}

}  // namespace
}  // namespace slipstream::test
