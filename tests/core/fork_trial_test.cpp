#include "core/fork_trial.h"

#include <gtest/gtest.h>

#include <vector>

namespace slipstream {
namespace {

/// A lane whose clock the test sets.
class ClockLane final : public Lane {
 public:
  using Lane::Lane;
  std::unique_ptr<Mark> make_mark() override { return std::make_unique<ClockMark>(*this); }
  void record(Mark& mark) override { dynamic_cast<ClockMark&>(mark).at_s = now_s; }
  void wait(const Mark&) override {}
  void synchronize() override {}

  double now_s = 0;
  bool is_busy = false;

 private:
  struct ClockMark final : Mark {
    explicit ClockMark(const ClockLane& own) : lane(own) {}
    bool reached() const override { return !lane.is_busy; }
    void synchronize() const override {}
    double seconds_after(const Mark& earlier) const override {
      return at_s - dynamic_cast<const ClockMark&>(earlier).at_s;
    }
    const ClockLane& lane;
    double at_s = 0;
  };
};

class ForkTrialTest : public testing::Test {
 protected:
  static constexpr std::size_t kTrialCalls =
      2 * (ForkTrial::kWarmUpCalls + ForkTrial::kMeasuredCalls);

  void pass(ForkTrial::Call& call, const std::vector<double>& branches_s, double streams_s) {
    ForkTrial::Pass timed(home_);
    if (call.on_streams) {
      home_.now_s += streams_s;
      timed.mark();
    } else {
      for (const double branch_s : branches_s) {
        home_.now_s += branch_s;
        timed.mark();
      }
    }
    call.passes.push_back(std::move(timed));
  }

  /// Runs a trial. The two branches take 1 s and 3 s forward, 4 s and 2 s backward. On streams each
  /// pass takes `streams_s`, or `last_s` in the last call. Warm-up calls take a hundred times as
  /// long, to show that they do not count.
  void run_trial(double streams_s, double last_s) {
    for (std::size_t i = 0; i < kTrialCalls; ++i) {
      const auto call = trial_.next();
      ASSERT_NE(call, nullptr);
      EXPECT_EQ(call->on_streams, i % 2 == 1);
      const double slow = i < 2 * ForkTrial::kWarmUpCalls ? 100 : 1;
      const double took_s = i + 1 == kTrialCalls ? last_s : slow * slow * streams_s;
      pass(*call, {slow * 1, slow * 3}, took_s);
      pass(*call, {slow * 4, slow * 2}, took_s);
    }
  }
  void run_trial(double streams_s) { run_trial(streams_s, streams_s); }

  ClockLane home_{"home"};
  ForkTrial trial_;
};

TEST_F(ForkTrialTest, KeepsStreamsWhenTheyAreFaster) {
  run_trial(4);
  EXPECT_FALSE(trial_.is_decided());
  EXPECT_EQ(trial_.next(), nullptr);
  ASSERT_TRUE(trial_.is_decided());
  EXPECT_TRUE(trial_.keeps_streams());
  EXPECT_EQ(trial_.reason(), "faster");
  EXPECT_DOUBLE_EQ(trial_.measured().value, 10.0 / 8);
  EXPECT_DOUBLE_EQ(trial_.predicted().value, 10.0 / 7);
  EXPECT_EQ(trial_.measured().n, ForkTrial::kMeasuredCalls);
  EXPECT_EQ(trial_.next(), nullptr);
}

TEST_F(ForkTrialTest, KeepsOneStreamWhenBothAreEquallyFast) {
  run_trial(5);
  trial_.next();
  ASSERT_TRUE(trial_.is_decided());
  EXPECT_DOUBLE_EQ(trial_.measured().value, 1);
  EXPECT_FALSE(trial_.keeps_streams());
  EXPECT_EQ(trial_.reason(), "the difference is within the noise");
}

TEST_F(ForkTrialTest, KeepsOneStreamWhenItIsFaster) {
  run_trial(6);
  trial_.next();
  EXPECT_FALSE(trial_.keeps_streams());
  EXPECT_EQ(trial_.reason(), "faster");
}

TEST_F(ForkTrialTest, DisagreeingCallsAreReportedAsNoise) {
  run_trial(4, 6);
  trial_.next();
  EXPECT_TRUE(trial_.keeps_streams()) << "streams were faster in two of three calls";
  EXPECT_EQ(trial_.reason(), "the difference is within the noise");
}

TEST_F(ForkTrialTest, NextDoesNotBlockWhileDeviceIsBusy) {
  run_trial(4);
  home_.is_busy = true;
  for (int turn = 0; turn < 5; ++turn) EXPECT_EQ(trial_.next(), nullptr);
  EXPECT_FALSE(trial_.is_decided());
  EXPECT_FALSE(trial_.keeps_streams());
  home_.is_busy = false;
  trial_.next();
  EXPECT_TRUE(trial_.is_decided());
}

TEST_F(ForkTrialTest, CallsWithoutMeasurementsAreIgnored) {
  for (std::size_t i = 0; i < kTrialCalls; ++i) trial_.next();
  EXPECT_EQ(trial_.next(), nullptr);
  EXPECT_FALSE(trial_.is_decided());
  run_trial(4);
  trial_.next();
  EXPECT_TRUE(trial_.keeps_streams());
}

TEST_F(ForkTrialTest, CallsWithoutBackwardAreIgnored) {
  for (std::size_t i = 0; i < kTrialCalls; ++i) {
    const auto call = trial_.next();
    pass(*call, {1, 3}, 5);
    if (!call->on_streams || i + 1 < kTrialCalls) pass(*call, {1, 3}, 5);
  }
  trial_.next();
  EXPECT_EQ(trial_.measured().n, ForkTrial::kMeasuredCalls - 1);
  EXPECT_DOUBLE_EQ(trial_.measured().value, 4.0 / 5);
}

}  // namespace
}  // namespace slipstream
