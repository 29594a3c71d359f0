#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>

#include "core/patience.h"
#include "core/schedule.h"
#include "core/test_lanes.h"

namespace slipstream::test {
namespace {

constexpr std::uint64_t kForever = 1'000'000;

/// Three lanes: the last is the caller's, lane 1 has a thread, and the caller advances lane 0.
class ThreadedPullTest : public ::testing::TestWithParam<Kind> {
 protected:
  void begin(std::uint64_t batches, const std::function<bool()>& stop = {}) {
    schedule_.begin(batches, stop, &threads_, {1});
  }
  /// Requests all batches to the end, and counts the training steps.
  void pull(int batches, Counter& bodies) {
    for (int batch = 0; batch < batches; ++batch) {
      ASSERT_TRUE(schedule_.next());
      bodies.add();
    }
    EXPECT_FALSE(schedule_.next());
    schedule_.end();
  }

  LaneThreads threads_;
  HookedWork work_;
  TestLanes lanes_{GetParam(), 3};
  Schedule schedule_{lanes_.all(), 3, 2, work_};
};

INSTANTIATE_TEST_SUITE_P(All, ThreadedPullTest, ::testing::Values(Kind::host, Kind::fake),
                         [](const auto& test) {
                           return test.param == Kind::host ? "host" : "fake";
                         });

TEST_P(ThreadedPullTest, LaneRunsOnOneSeparateThread) {
  std::set<std::thread::id> callers, own;
  work_.on_run = [&](std::size_t lane, std::uint64_t, std::size_t) {
    (lane == 1 ? own : callers).insert(std::this_thread::get_id());
    if (lane == 1 && lanes_.fake(lane) != nullptr) {
      EXPECT_EQ(lanes_.fake(lane)->begun_by(), std::this_thread::get_id());
    }
  };
  begin(5);
  for (int batch = 0; batch < 5; ++batch) ASSERT_TRUE(schedule_.next());
  EXPECT_FALSE(schedule_.next());
  schedule_.end();
  EXPECT_EQ(callers, std::set{std::this_thread::get_id()});
  EXPECT_EQ(own.size(), 1u);
  EXPECT_NE(own, callers);
}

TEST_P(ThreadedPullTest, ThreadEnqueuesNextBatchDuringTheTrainingStep) {
  Counter bodies;
  work_.on_run = [&](std::size_t lane, std::uint64_t batch, std::size_t) {
    if (lane == 1 && batch > 0) bodies.await(batch, "the training step of the previous batch");
  };
  begin(20);
  pull(20, bodies);
}

TEST_P(ThreadedPullTest, LateInputDoesNotDelayBatchesOnTheThread) {
  Counter bodies;
  work_.on_ready = [&](std::uint64_t batch) { return bodies.value() >= batch; };
  work_.on_await = [](std::uint64_t batch) {
    ADD_FAILURE() << "batch " << batch << " is never ready";
  };
  work_.on_run = [&](std::size_t lane, std::uint64_t, std::size_t) {
    if (lane == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  begin(8);
  pull(8, bodies);
}

TEST_P(ThreadedPullTest, ThreadErrorIsRethrownUnchanged) {
  std::uint64_t failing = 3;
  work_.on_run = [&](std::size_t lane, std::uint64_t batch, std::size_t) {
    if (lane == 1 && batch == failing) throw std::out_of_range("no");
  };
  begin(kForever);
  EXPECT_THROW(while (schedule_.next()){}, std::out_of_range);
  EXPECT_EQ(schedule_.failed_lane(), 1u);
  EXPECT_EQ(schedule_.failed_batch(), 3u);
  schedule_.end();
  failing = kForever;
  begin(2);
  EXPECT_TRUE(schedule_.next());
  EXPECT_TRUE(schedule_.next());
  EXPECT_FALSE(schedule_.next());
  schedule_.end();
}

/// Only fake lanes: begin_thread() of a host lane does nothing.
class ThreadedPullOnFakeLanesTest : public ThreadedPullTest {};

INSTANTIATE_TEST_SUITE_P(All, ThreadedPullOnFakeLanesTest, ::testing::Values(Kind::fake));

TEST_P(ThreadedPullOnFakeLanesTest, ErrorInBeginThreadIsRethrown) {
  lanes_.fake(1)->on_begin_thread = [] { throw std::out_of_range("no"); };
  begin(kForever);
  EXPECT_THROW(while (schedule_.next()){}, std::out_of_range);
  EXPECT_EQ(schedule_.failed_lane(), 1u);
  schedule_.end();
}

TEST_P(ThreadedPullTest, ErrorOfAnotherLaneStopsTheThread) {
  std::atomic<std::uint64_t> last = 0;
  work_.on_run = [&](std::size_t lane, std::uint64_t batch, std::size_t) {
    if (lane == 0 && batch == 4) throw std::out_of_range("no");
    if (lane == 1) last = batch;
  };
  begin(kForever);
  EXPECT_THROW(while (schedule_.next()){}, std::out_of_range);
  EXPECT_EQ(schedule_.failed_lane(), 0u);
  schedule_.end();
  EXPECT_LT(last, 4u);
}

TEST_P(ThreadedPullTest, EndStopsTheThreadAndDropsAllSlots) {
  const std::thread::id caller = std::this_thread::get_id();
  for (int batches = 0; batches < 6; ++batches) {
    std::set<std::size_t> dropped;  // slots that the caller dropped, which happens only at the end
    work_.on_drop = [&](std::size_t lane, std::size_t slot) {
      if (lane == 1 && std::this_thread::get_id() == caller) dropped.insert(slot);
    };
    begin(kForever);
    for (int batch = 0; batch < batches; ++batch) ASSERT_TRUE(schedule_.next());
    schedule_.end();
    EXPECT_EQ(dropped.size(), 3u);
  }
  EXPECT_EQ(threads_.size(), 1u);
}

TEST_P(ThreadedPullTest, StopEndsAfterTheAdmittedBatches) {
  std::uint64_t entered = 0;
  std::uint64_t given = 0;
  const std::function<bool()> stop = [&] { return entered == 7; };
  work_.on_run = [&](std::size_t lane, std::uint64_t, std::size_t) {
    if (lane == 0) ++entered;
  };
  begin(kForever, stop);
  while (schedule_.next()) ++given;
  EXPECT_EQ(given, 7u);
  EXPECT_FALSE(schedule_.next());
  schedule_.end();
}

TEST_P(ThreadedPullTest, NextReturnsFalseForZeroBatches) {
  begin(0);
  EXPECT_FALSE(schedule_.next());
  schedule_.end();
}

TEST_P(ThreadedPullTest, LastLaneOnAThreadThrows) {
  EXPECT_THROW(schedule_.begin(1, {}, &threads_, {2}), std::exception);
}

/// Three lanes, the first of which has a thread.
class ThreadedInputTest : public ThreadedPullTest {
 protected:
  void begin(std::uint64_t batches, const std::function<bool()>& stop = {}) {
    schedule_.begin(batches, stop, &threads_, {0});
  }
};

INSTANTIATE_TEST_SUITE_P(All, ThreadedInputTest, ::testing::Values(Kind::host, Kind::fake),
                         [](const auto& test) {
                           return test.param == Kind::host ? "host" : "fake";
                         });

TEST_P(ThreadedInputTest, ThreadTakesNextInputDuringTheTrainingStep) {
  const std::thread::id caller = std::this_thread::get_id();
  Counter bodies;
  const std::function<bool()> stop = [&] {
    EXPECT_NE(std::this_thread::get_id(), caller);
    return false;
  };
  work_.on_ready = [&](std::uint64_t) {
    EXPECT_NE(std::this_thread::get_id(), caller);
    return true;
  };
  work_.on_run = [&](std::size_t lane, std::uint64_t batch, std::size_t) {
    EXPECT_EQ(std::this_thread::get_id() == caller, lane != 0);
    if (lane == 0 && batch > 1) bodies.await(batch - 1, "the training step of an earlier batch");
  };
  begin(20, stop);
  pull(20, bodies);
}

TEST_P(ThreadedInputTest, CallerPollsWhileInputIsLate) {
  Counter polls;
  work_.on_poll = [&] { polls.add(); };
  work_.on_ready = [](std::uint64_t batch) { return batch != 3; };
  work_.on_await = [&](std::uint64_t) { polls.await(2, "two looks"); };
  begin(6);
  for (int batch = 0; batch < 6; ++batch) ASSERT_TRUE(schedule_.next());
  EXPECT_FALSE(schedule_.next());
  schedule_.end();
  EXPECT_GE(polls.value(), 2u);
}

TEST_P(ThreadedInputTest, PollErrorIsRethrownWhileInputIsLate) {
  Counter thrown;
  work_.on_poll = [] { throw std::out_of_range("no"); };
  work_.on_ready = [](std::uint64_t batch) { return batch != 3; };
  work_.on_await = [&](std::uint64_t) { thrown.await(1, "the exception of the poll"); };
  begin(kForever);
  EXPECT_THROW(while (schedule_.next()){}, std::out_of_range);
  thrown.add();
  schedule_.end();
}

TEST_P(ThreadedInputTest, InputErrorIsRethrownUnchanged) {
  work_.on_ready = [](std::uint64_t batch) { return batch != 3; };
  work_.on_await = [](std::uint64_t) { throw std::out_of_range("no"); };
  begin(kForever);
  EXPECT_THROW(while (schedule_.next()){}, std::out_of_range);
  EXPECT_EQ(schedule_.failed_lane(), 0u);
  EXPECT_EQ(schedule_.failed_batch(), 3u);
  schedule_.end();
}

TEST_P(ThreadedInputTest, StopEndsAfterTheAdmittedBatches) {
  std::uint64_t entered = 0;  // only lane 0's thread uses it
  std::uint64_t given = 0;
  const std::function<bool()> stop = [&] { return entered == 7; };
  work_.on_run = [&](std::size_t lane, std::uint64_t, std::size_t) {
    if (lane == 0) ++entered;
  };
  begin(kForever, stop);
  while (schedule_.next()) ++given;
  EXPECT_EQ(given, 7u);
  schedule_.end();
}

/// Only fake lanes: host lanes have no device that a thread could wait for.
class ThreadedInputOnFakeLanesTest : public ThreadedInputTest {};

INSTANTIATE_TEST_SUITE_P(All, ThreadedInputOnFakeLanesTest, ::testing::Values(Kind::fake));

TEST_P(ThreadedInputOnFakeLanesTest, EndDoesNotWaitForTheDevice) {
  Counter ended;
  begin(kForever);
  // after these, lane 0's thread waits for the end of the first batch
  for (int batch = 0; batch < 5; ++batch) {
    ASSERT_TRUE(schedule_.next());
    if (batch == 0) lanes_.enqueue(2, [&] { ended.await(1, "the end"); });
  }
  schedule_.end();
  ended.add();
  for (Lane* lane : lanes_.all()) lane->synchronize();
}

TEST_P(ThreadedInputTest, EndStopsTheThreadAfterAnyNumberOfBatches) {
  for (int batches = 0; batches < 6; ++batches) {
    std::atomic<bool> ends = false;
    const std::function<bool()> stop = [&] { return ends.load(); };
    work_.on_ready = [&](std::uint64_t batch) { return batch != 4; };
    work_.on_await = [&](std::uint64_t) { eventually("the end", [&] { return ends.load(); }); };
    begin(kForever, stop);
    for (int batch = 0; batch < std::min(batches, 4); ++batch) ASSERT_TRUE(schedule_.next());
    ends = true;
    schedule_.end();
  }
  EXPECT_EQ(threads_.size(), 1u);
}

}  // namespace
}  // namespace slipstream::test
