#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "core/patience.h"
#include "core/schedule.h"
#include "core/test_lanes.h"

namespace slipstream::test {
namespace {

constexpr std::uint64_t kErrorBatches = 12;

enum class Site { run, drop, await_input, completed, stop, begin_thread };

/// A type that the library does not know, as a user's stage may throw it.
struct Thrown {
  Site site;
  std::size_t lane;
  std::uint64_t batch;
};

class ErrorTest : public ::testing::TestWithParam<Combo> {
 protected:
  ErrorTest() {
    work_.on_ready = [](std::uint64_t) { return false; };
    work_.on_await = [this](std::uint64_t batch) { at(Site::await_input, 0, batch); };
    work_.on_drop = [this](std::size_t lane, std::size_t) { at(Site::drop, lane, next_[lane]); };
    work_.on_run = [this](std::size_t lane, std::uint64_t batch, std::size_t) {
      next_[lane] = batch + 1;
      lanes_.enqueue(lane, [this] { ++executed_; });
      at(Site::run, lane, batch);
      if (lane == last_) ++through_;
    };
    work_.on_completed = [this](std::uint64_t batch, auto...) {
      EXPECT_EQ(batch, completed_++);
      at(Site::completed, last_, batch);
    };
  }

  void at(Site site, std::size_t lane, std::uint64_t batch) {
    EXPECT_TRUE(running_) << "called after the end of run()";
    if (armed_ && site_ == site && lane_ == lane && batch_ == batch)
      throw Thrown{site, lane, batch};
  }
  std::uint64_t run(const std::function<bool()>& stop = {}) {
    std::fill(next_.begin(), next_.end(), 0);
    executed_ = through_ = completed_ = 0;
    running_ = true;
    struct End {
      std::atomic<bool>& running;
      ~End() { running = false; }
    } end{running_};
    return schedule_.run(kErrorBatches, GetParam().driver, threads_, stop);
  }

  /// Lets one run throw at the given site, and checks that the next run succeeds.
  void fail_at(Site site, std::size_t lane, std::uint64_t batch) {
    SCOPED_TRACE("site " + std::to_string(static_cast<int>(site)) + ", lane " +
                 std::to_string(lane) + ", batch " + std::to_string(batch));
    site_ = site, lane_ = lane, batch_ = batch, armed_ = true;
    std::uint64_t asked = 0;
    const auto stop = [&] { return at(Site::stop, 0, asked++), false; };
    try {
      run(stop);
      ADD_FAILURE() << "no error was thrown";
    } catch (const Thrown& error) {
      EXPECT_TRUE(error.site == site && error.lane == lane && error.batch == batch);
    }
    EXPECT_EQ(schedule_.failed_lane(), lane);
    EXPECT_EQ(schedule_.failed_batch(), batch);
    EXPECT_EQ(completed_, through_);
    const std::uint64_t executed = executed_;
    for (Lane* each : lanes_.all()) each->synchronize();
    EXPECT_EQ(executed_, executed) << "a lane was not drained";

    armed_ = false;
    EXPECT_EQ(run(), kErrorBatches);
    EXPECT_EQ(executed_, kErrorBatches * GetParam().lanes);
    EXPECT_EQ(completed_, kErrorBatches);
  }

  const std::size_t last_ = GetParam().lanes - 1;
  Site site_ = Site::run;
  std::size_t lane_ = 0;
  std::uint64_t batch_ = 0;
  bool armed_ = false;
  std::atomic<bool> running_ = false;
  std::atomic<std::uint64_t> executed_ = 0;
  std::uint64_t through_ = 0, completed_ = 0;
  std::vector<std::uint64_t> next_ = std::vector<std::uint64_t>(GetParam().lanes);
  TestLanes lanes_{GetParam().kind, GetParam().lanes};
  LaneThreads threads_;
  HookedWork work_;
  Schedule schedule_{lanes_.all(), GetParam().depth, 1, work_};
};

INSTANTIATE_TEST_SUITE_P(All, ErrorTest, ::testing::ValuesIn(combos()), kComboName);

TEST_P(ErrorTest, ErrorFromAnyCallbackIsRethrownUnchanged) {
  for (std::uint64_t batch :
       {std::uint64_t{0}, std::uint64_t{1}, kErrorBatches / 2, kErrorBatches - 1}) {
    for (std::size_t lane = 0; lane <= last_; ++lane) {
      fail_at(Site::run, lane, batch);
      fail_at(Site::drop, lane, batch);
    }
    fail_at(Site::await_input, 0, batch);
    fail_at(Site::completed, last_, batch);
    fail_at(Site::stop, 0, batch);
  }
}

/// Lanes whose begin_thread() does something.
class ThreadedFakeLaneErrorTest : public ErrorTest {};

INSTANTIATE_TEST_SUITE_P(All, ThreadedFakeLaneErrorTest,
                         ::testing::ValuesIn(only(combos(),
                                                  [](const Combo& each) {
                                                    return is_fake(each) &&
                                                           each.driver == Driver::threaded;
                                                  })),
                         kComboName);

TEST_P(ThreadedFakeLaneErrorTest, ErrorInBeginThreadIsRethrown) {
  for (std::size_t lane = 0; lane <= last_; ++lane) {
    lanes_.fake(lane)->on_begin_thread = [this, lane] { at(Site::begin_thread, lane, 0); };
    fail_at(Site::begin_thread, lane, 0);
  }
}

TEST_P(ErrorTest, BatchesAfterAFailedCompletionAreCompleted) {
  work_.on_completed = [this](std::uint64_t batch, auto...) {
    EXPECT_EQ(batch, completed_++);
    if (batch >= 2) throw Thrown{Site::completed, last_, batch};
  };
  EXPECT_THROW(run(), Thrown);
  EXPECT_EQ(schedule_.failed_batch(), 2u);
  EXPECT_EQ(completed_, through_);
}

/// Schedules that run lanes on several threads.
class SeveralThreadsErrorTest : public ErrorTest {};

INSTANTIATE_TEST_SUITE_P(All, SeveralThreadsErrorTest,
                         ::testing::ValuesIn(only(combos(),
                                                  [](const Combo& each) {
                                                    return each.driver == Driver::threaded &&
                                                           each.lanes > 1;
                                                  })),
                         kComboName);

TEST_P(SeveralThreadsErrorTest, OneOfTwoSimultaneousErrorsIsRethrownUnchanged) {
  for (int round = 0; round < 20; ++round) {
    Counter here;
    work_.on_run = [&](std::size_t lane, std::uint64_t batch, std::size_t) {
      if (lane >= 2 || batch != 1 - lane) return;
      here.add();
      here.await(2, "the other lane's error");
      throw Thrown{Site::run, lane, batch};
    };
    try {
      run();
      ADD_FAILURE() << "no error was thrown";
    } catch (const Thrown& error) {
      EXPECT_EQ(schedule_.failed_lane(), error.lane);
      EXPECT_EQ(schedule_.failed_batch(), error.batch);
    }
  }
}

/// Lanes that can be lost, as a CUDA device is after a failed assertion.
class FakeLaneErrorTest : public ErrorTest {};

INSTANTIATE_TEST_SUITE_P(All, FakeLaneErrorTest, ::testing::ValuesIn(only(combos(), is_fake)),
                         kComboName);

TEST_P(FakeLaneErrorTest, LostLaneIsReportedAsFailedLane) {
  for (std::size_t lost = 0; lost <= last_; ++lost) {
    SCOPED_TRACE("lane " + std::to_string(lost));
    TestLanes lanes(Kind::fake, GetParam().lanes);
    HookedWork work;
    work.on_run = [&](std::size_t lane, std::uint64_t batch, std::size_t) {
      if (lane == lost && batch == 5)
        lanes.enqueue(lane, [] { throw Error("device-side assertion"); });
    };
    Schedule schedule(lanes.all(), GetParam().depth, 1, work);
    EXPECT_THROW(schedule.run(kErrorBatches, GetParam().driver, threads_), DeviceLost);
    EXPECT_EQ(schedule.failed_lane(), lost);
    EXPECT_LT(schedule.failed_batch(), kErrorBatches);
    EXPECT_THROW(schedule.run(kErrorBatches, GetParam().driver, threads_), DeviceLost);
  }
}

TEST_P(FakeLaneErrorTest, FirstErrorIsRethrownDespiteErrorsWhileDraining) {
  work_.on_run = [&](std::size_t lane, std::uint64_t batch, std::size_t) {
    if (batch != 1) return;
    lanes_.enqueue(lane, [] { throw Error("device-side assertion"); });
    if (lane == 0) throw Thrown{Site::run, lane, batch};
  };
  EXPECT_THROW(run(), Thrown);
  EXPECT_EQ(schedule_.failed_lane(), 0u);
  EXPECT_EQ(schedule_.failed_batch(), 1u);
}

}  // namespace
}  // namespace slipstream::test
