#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <set>
#include <string>

#include "core/fake_lane.h"
#include "core/schedule.h"
#include "core/test_lanes.h"

namespace slipstream::test {
namespace {

using testing::ElementsAre;

/// Three lanes, the last of which is the caller, and an input whose readiness the test sets.
class PullTest : public ::testing::Test {
 protected:
  struct RecordingWork final : Work {
    bool input_ready(std::uint64_t batch) override { return batch < ready; }
    void await_input(std::uint64_t batch) override {
      calls.push_back("await " + std::to_string(batch));
      ready = batch + 1;
    }
    void drop(std::size_t lane, std::size_t slot) override { dropped.insert({lane, slot}); }
    void run(std::size_t lane, std::uint64_t batch, std::size_t) override {
      if (lane == failing_lane && batch == failing_batch) throw std::runtime_error("no");
      calls.push_back(std::to_string(lane) + ":" + std::to_string(batch));
    }
    bool wants_times() const override { return false; }
    void completed(std::uint64_t batch, std::span<const Mark* const> begin,
                   std::span<const Mark* const> end) override {
      EXPECT_THAT(begin, testing::Each(nullptr));
      EXPECT_THAT(end, testing::Each(testing::NotNull()));
      completed_batches = batch + 1;
    }

    std::uint64_t ready = 1000, completed_batches = 0;
    std::size_t failing_lane = 9;
    std::uint64_t failing_batch = 0;
    std::vector<std::string> calls;
    std::set<std::pair<std::size_t, std::size_t>> dropped;
  };

  std::vector<std::string> take_calls() { return std::exchange(work_.calls, {}); }

  FakeLane copy_{"copy"}, encode_{"encode"}, body_{"body"};
  RecordingWork work_;
  Schedule schedule_{{&copy_, &encode_, &body_}, 3, 2, work_};
};

TEST_F(PullTest, EarlierLanesRunAheadByOneBatchEach) {
  schedule_.begin(100);
  ASSERT_TRUE(schedule_.next());
  EXPECT_THAT(take_calls(), ElementsAre("0:0", "1:0", "0:1", "1:1", "0:2"));
  ASSERT_TRUE(schedule_.next());
  EXPECT_THAT(take_calls(), ElementsAre("1:2", "0:3"));
  schedule_.end();
}

TEST_F(PullTest, LateInputDoesNotDelayReadyBatches) {
  work_.ready = 2;
  schedule_.begin(100);
  ASSERT_TRUE(schedule_.next());
  ASSERT_TRUE(schedule_.next());
  EXPECT_THAT(take_calls(), ElementsAre("0:0", "1:0", "0:1", "1:1"));
  ASSERT_TRUE(schedule_.next());
  EXPECT_THAT(take_calls(), ElementsAre("await 2", "0:2", "1:2"));
  schedule_.end();
}

TEST_F(PullTest, StopEndsAfterTheAdmittedBatches) {
  bool is_over = false;
  const std::function<bool()> stop = [&is_over] { return is_over; };
  schedule_.begin(100, stop);
  ASSERT_TRUE(schedule_.next());
  is_over = true;
  EXPECT_TRUE(schedule_.next());
  EXPECT_TRUE(schedule_.next());
  EXPECT_FALSE(schedule_.next());
  EXPECT_FALSE(schedule_.next());
  schedule_.end();
}

TEST_F(PullTest, NextReturnsFalseForZeroBatches) {
  schedule_.begin(0);
  EXPECT_FALSE(schedule_.next());
  schedule_.end();
}

TEST_F(PullTest, EndDropsAllSlotsAfterAnyNumberOfBatches) {
  for (const int batches : {0, 1, 4}) {
    work_.dropped.clear();
    schedule_.begin(100);
    for (int i = 0; i < batches; ++i) ASSERT_TRUE(schedule_.next());
    schedule_.end();
    EXPECT_EQ(work_.dropped.size(), 9u);
    work_.dropped.clear();
    schedule_.end();
    EXPECT_TRUE(work_.dropped.empty());
  }
}

TEST_F(PullTest, ErrorIsRethrownAndReportsLaneAndBatch) {
  work_.failing_lane = 1;
  work_.failing_batch = 3;
  schedule_.begin(100);
  ASSERT_TRUE(schedule_.next());
  ASSERT_TRUE(schedule_.next());
  EXPECT_THROW(schedule_.next(), std::runtime_error);
  EXPECT_EQ(schedule_.failed_lane(), 1u);
  EXPECT_EQ(schedule_.failed_batch(), 3u);
  schedule_.end();
  work_.failing_lane = 9;
  schedule_.begin(2);
  EXPECT_TRUE(schedule_.next());
  EXPECT_TRUE(schedule_.next());
  EXPECT_FALSE(schedule_.next());
  schedule_.end();
}

TEST_F(PullTest, HostRunsAheadByAtMostDepthPlusRunAhead) {
  constexpr std::uint64_t kWindow = 3 + 2, kPulled = 12;
  // Permits to end the caller's work on a batch; shared, because the device may use them after the
  // test.
  const auto permits = std::make_shared<Counter>();
  std::atomic<std::uint64_t> entered = 0;
  HookedWork work;
  work.on_run = [&](std::size_t lane, std::uint64_t batch, std::size_t) {
    if (lane != 0) return;
    EXPECT_LT(batch, permits->value() + kWindow);
    ++entered;
  };
  Schedule schedule({&copy_, &encode_, &body_}, 3, 2, work);
  auto pulled = std::async(std::launch::async, [&] {
    std::uint64_t batches = 0;
    schedule.begin(kPulled);
    for (; schedule.next(); ++batches)
      body_.enqueue([permits, batches] { permits->await(batches + 1, "the test's permit"); });
    schedule.end();
    return batches;
  });
  for (std::uint64_t done = 0; done + kWindow < kPulled; ++done) {
    eventually("the host to fill its window and to block",
               [&] { return entered >= kWindow + done && body_.blocked_hosts() == 1; });
    EXPECT_EQ(entered, kWindow + done);
    permits->add();
  }
  permits->add(kPulled);
  EXPECT_EQ(pulled.get(), kPulled);
}

}  // namespace
}  // namespace slipstream::test
