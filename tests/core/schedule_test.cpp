#include "core/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "core/patience.h"
#include "core/test_lanes.h"

namespace slipstream::test {
namespace {

constexpr std::uint64_t kBatches = 17;

class ScheduleTest : public ::testing::TestWithParam<Combo> {
 protected:
  std::uint64_t run(Schedule& schedule, std::uint64_t batches,
                    const std::function<bool()>& stop = {}) {
    return schedule.run(batches, GetParam().driver, threads_, stop);
  }
  Schedule make_schedule(std::size_t run_ahead = 1) {
    return {lanes_.all(), GetParam().depth, run_ahead, work_};
  }

  const std::size_t last_ = GetParam().lanes - 1;
  TestLanes lanes_{GetParam().kind, GetParam().lanes};
  LaneThreads threads_;
  HookedWork work_;
};

INSTANTIATE_TEST_SUITE_P(All, ScheduleTest, ::testing::ValuesIn(combos()), kComboName);

TEST_P(ScheduleTest, EachLaneIsCalledInOrderOnOneThread) {
  std::vector<std::vector<std::string>> calls(last_ + 1);
  std::vector<std::map<std::thread::id, int>> callers(last_ + 1);
  const auto log = [&](std::size_t lane, const std::string& what, std::uint64_t number) {
    calls[lane].push_back(what + " " + std::to_string(number));
    ++callers[lane][std::this_thread::get_id()];
    if (lanes_.fake(lane) != nullptr && GetParam().driver == Driver::threaded) {
      EXPECT_EQ(lanes_.fake(lane)->begun_by(), std::this_thread::get_id());
    }
  };
  work_.on_ready = [&](std::uint64_t batch) { return log(0, "ready", batch), batch % 2 == 0; };
  work_.on_await = [&](std::uint64_t batch) { log(0, "await", batch); };
  work_.on_drop = [&](std::size_t lane, std::size_t slot) { log(lane, "drop", slot); };
  work_.on_run = [&](std::size_t lane, std::uint64_t batch, std::size_t slot) {
    EXPECT_EQ(slot, batch % GetParam().depth);
    log(lane, "run", batch);
  };
  Schedule schedule = make_schedule();
  EXPECT_EQ(run(schedule, kBatches), kBatches);

  for (std::size_t lane = 0; lane <= last_; ++lane) {
    std::vector<std::string> expected;
    for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
      if (lane == 0) expected.push_back("ready " + std::to_string(batch));
      if (lane == 0 && batch % 2 != 0) expected.push_back("await " + std::to_string(batch));
      expected.push_back("drop " + std::to_string(batch % GetParam().depth));
      expected.push_back("run " + std::to_string(batch));
    }
    EXPECT_EQ(calls[lane], expected) << "lane " << lane;
    ASSERT_EQ(callers[lane].size(), 1u);
    EXPECT_EQ(callers[lane].count(std::this_thread::get_id()),
              GetParam().driver == Driver::interleaved ? 1u : 0u);
    for (std::size_t other = 0; other < lane && GetParam().driver == Driver::threaded; ++other)
      EXPECT_NE(callers[lane].begin()->first, callers[other].begin()->first);
  }
}

TEST_P(ScheduleTest, WorkExecutesInTheOrderOfTheWaits) {
  // Positions in the order of execution, by [lane][batch].
  std::vector<std::vector<int>> dropped(last_ + 1), began(last_ + 1), done(last_ + 1);
  std::atomic<int> now = 0;
  work_.on_drop = [&](std::size_t lane, std::size_t) {
    lanes_.enqueue(lane, [&, lane] { dropped[lane].push_back(++now); });
  };
  work_.on_run = [&](std::size_t lane, std::uint64_t, std::size_t) {
    lanes_.enqueue(lane, [&, lane] {
      began[lane].push_back(++now);
      std::this_thread::yield();
      done[lane].push_back(++now);
    });
  };
  Schedule schedule = make_schedule();
  run(schedule, kBatches);

  for (std::size_t lane = 0; lane <= last_; ++lane) {
    ASSERT_EQ(done[lane].size(), kBatches);
    ASSERT_EQ(dropped[lane].size(), kBatches);
    for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
      EXPECT_LT(dropped[lane][batch], began[lane][batch]);
      if (lane > 0) {
        EXPECT_LT(done[lane - 1][batch], began[lane][batch]);
      }
      if (batch >= GetParam().depth) {
        EXPECT_LT(done[last_][batch - GetParam().depth], dropped[lane][batch]);
      }
    }
  }
}

TEST_P(ScheduleTest, EveryBatchIsCompletedOnceInOrderWithItsMarks) {
  std::uint64_t expected = 0;
  std::atomic<std::uint64_t> finished = 0;
  std::thread::id first_lane;
  const std::thread::id caller = std::this_thread::get_id();
  const Mark* previous_end = nullptr;
  double previous_end_s = 0;
  std::unique_ptr<Mark> start = lanes_.all()[0]->make_mark();
  lanes_.all()[0]->record(*start);
  work_.on_run = [&](std::size_t lane, std::uint64_t, std::size_t) {
    if (lane == 0) first_lane = std::this_thread::get_id();
    if (lane == last_) lanes_.enqueue(lane, [&] { ++finished; });
  };
  work_.on_completed = [&](std::uint64_t batch, auto begin, auto end) {
    EXPECT_EQ(batch, expected++);
    EXPECT_GT(finished, batch);
    const auto id = std::this_thread::get_id();
    EXPECT_TRUE(id == first_lane || id == caller);
    ASSERT_EQ(begin.size(), last_ + 1);
    ASSERT_EQ(end.size(), last_ + 1);
    double time_s = 0;
    for (std::size_t lane = 0; lane <= last_; ++lane) {
      ASSERT_TRUE(begin[lane]->reached() && end[lane]->reached());
      EXPECT_GE(begin[lane]->seconds_after(*start), time_s);
      EXPECT_GE(end[lane]->seconds_after(*begin[lane]), 0);
      time_s = end[lane]->seconds_after(*start);
    }
    EXPECT_GE(time_s, previous_end_s);
    if (previous_end != nullptr) {
      EXPECT_EQ(previous_end->seconds_after(*start), previous_end_s);
    }
    previous_end = end[last_];
    previous_end_s = time_s;
  };
  Schedule schedule = make_schedule(2);
  run(schedule, kBatches);
  EXPECT_EQ(expected, kBatches);
}

TEST_P(ScheduleTest, RunsTheRequestedNumberOfBatches) {
  std::vector<std::uint64_t> ran(last_ + 1);
  std::uint64_t completed = 0;
  work_.on_run = [&](std::size_t lane, std::uint64_t, std::size_t) { ++ran[lane]; };
  work_.on_completed = [&](auto...) { ++completed; };
  Schedule schedule = make_schedule();
  const std::uint64_t depth = GetParam().depth;
  for (std::uint64_t batches :
       {std::uint64_t{0}, std::uint64_t{1}, depth - 1, depth, depth + 1, 5 * depth + 1}) {
    SCOPED_TRACE(batches);
    std::fill(ran.begin(), ran.end(), 0);
    completed = 0;
    EXPECT_EQ(run(schedule, batches), batches);
    EXPECT_THAT(ran, ::testing::Each(batches));
    EXPECT_EQ(completed, batches);
  }
}

TEST_P(ScheduleTest, StopEndsTheRunAfterTheAdmittedBatches) {
  std::vector<std::uint64_t> ran(last_ + 1);
  std::uint64_t completed = 0;
  work_.on_run = [&](std::size_t lane, std::uint64_t, std::size_t) { ++ran[lane]; };
  work_.on_completed = [&](auto...) { ++completed; };
  Schedule schedule = make_schedule();
  for (std::uint64_t limit = 0; limit <= 2 * GetParam().depth + 1; ++limit) {
    SCOPED_TRACE(limit);
    std::fill(ran.begin(), ran.end(), 0);
    completed = 0;
    std::uint64_t asked = 0;
    EXPECT_EQ(run(schedule, 1000, [&] { return asked++ == limit; }), limit);
    EXPECT_EQ(asked, limit + 1);
    EXPECT_THAT(ran, ::testing::Each(limit));
    EXPECT_EQ(completed, limit);
  }
}

TEST_P(ScheduleTest, StopIsNotCalledAfterTheLastBatch) {
  std::uint64_t asked = 0;
  Schedule schedule = make_schedule();
  EXPECT_EQ(run(schedule, 3, [&] { return ++asked > 3; }), 3u);
  EXPECT_EQ(asked, 3u);
}

TEST_P(ScheduleTest, RepeatedRunsHaveNoOrderViolation) {
  OrderCheck check(GetParam().lanes, GetParam().depth, GetParam().depth + 1);
  ScheduleProbe probe;
  probe.check = &check;
  Schedule schedule(lanes_.all(), GetParam().depth, 1, work_, &probe);
  for (std::uint64_t batches : {5u, 11u, 1u, 8u}) EXPECT_EQ(run(schedule, batches), batches);
  EXPECT_THAT(check.violations(), ::testing::IsEmpty());
}

TEST_P(ScheduleTest, LateInputBlocksOnlyTheFirstLane) {
  constexpr std::uint64_t kLate = 3;
  Counter awaiting, arrived;
  std::atomic<std::uint64_t> entered = 0, finished = 0;
  work_.on_ready = [&](std::uint64_t batch) { return batch != kLate; };
  work_.on_await = [&](std::uint64_t) {
    awaiting.add();
    arrived.await(1, "the test to let the input arrive");
  };
  work_.on_run = [&](std::size_t lane, std::uint64_t, std::size_t) {
    if (lane == 0) ++entered;
    if (lane == last_) lanes_.enqueue(lane, [&] { ++finished; });
  };
  Schedule schedule = make_schedule();
  auto result = std::async(std::launch::async, [&] { return run(schedule, kBatches); });
  awaiting.await(1, "the first lane to miss its input");
  eventually("earlier batches to finish", [&] { return finished == kLate; });
  EXPECT_EQ(entered, kLate);
  arrived.add();
  EXPECT_EQ(result.get(), kBatches);
  EXPECT_EQ(finished, kBatches);
}

class RunAhead : public ::testing::TestWithParam<std::tuple<Driver, std::size_t>> {};

INSTANTIATE_TEST_SUITE_P(All, RunAhead,
                         ::testing::Combine(::testing::Values(Driver::interleaved,
                                                              Driver::threaded),
                                            ::testing::Values(1, 3)),
                         [](const auto& test) {
                           return driver_name(std::get<0>(test.param)) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

TEST_P(RunAhead, HostRunsAheadByAtMostDepthPlusRunAhead) {
  const auto [driver, run_ahead] = GetParam();
  constexpr std::size_t kDepth = 3;
  const std::uint64_t window = kDepth + run_ahead;
  TestLanes lanes(Kind::fake, 2);
  HookedWork work;
  LaneThreads threads;
  Counter permits;
  std::atomic<std::uint64_t> entered = 0;
  work.on_run = [&](std::size_t lane, std::uint64_t batch, std::size_t) {
    if (lane == 0) {
      EXPECT_LT(batch, permits.value() + window);
      ++entered;
    } else {
      lanes.enqueue(1, [&, batch] { permits.await(batch + 1, "the test's permit"); });
    }
  };
  Schedule schedule(lanes.all(), kDepth, run_ahead, work);
  auto result = std::async(std::launch::async,
                           [&, d = driver] { return schedule.run(kBatches, d, threads); });
  for (std::uint64_t done = 0; done + window < kBatches; ++done) {
    eventually("the host to fill its window and to block",
               [&] { return entered >= window + done && lanes.fake(1)->blocked_hosts() == 1; });
    EXPECT_EQ(entered, window + done);
    permits.add();
  }
  permits.add(kBatches);
  EXPECT_EQ(result.get(), kBatches);
}

class Overlap : public ::testing::TestWithParam<Combo> {
 protected:
  // Lane 1's part of batch n returns only after lane 0's part of batch n + 1 has begun.
  void run(std::size_t lane_count, std::chrono::milliseconds patience) {
    TestLanes lanes(GetParam().kind, lane_count);
    HookedWork work;
    LaneThreads threads;
    Counter begun;
    const auto encode = [&](std::uint64_t) { begun.add(); };
    const auto train = [&, patience](std::uint64_t batch) {
      if (batch + 1 < kBatches) begun.await(batch + 2, "encode of the next batch", patience);
    };
    work.on_run = [&](std::size_t lane, std::uint64_t batch, std::size_t) {
      if (lane == 0) lanes.enqueue(0, [&encode, batch] { encode(batch); });
      if (lane + 1 == lane_count) lanes.enqueue(lane, [&train, batch] { train(batch); });
    };
    Schedule schedule(lanes.all(), 2, 1, work);
    EXPECT_EQ(schedule.run(kBatches, GetParam().driver, threads), kBatches);
  }
};

INSTANTIATE_TEST_SUITE_P(All, Overlap, ::testing::ValuesIn(combos({2}, {0})), kComboName);

TEST_P(Overlap, TwoLanesOverlapUnlessOnOneHostThread) {
  if (GetParam().kind == Kind::host && GetParam().driver == Driver::interleaved) {
    // both lanes have the same host thread
    EXPECT_THROW(run(2, std::chrono::milliseconds(20)), TimedOut);
  } else {
    run(2, kPatience);
  }
}

TEST_P(Overlap, OneLaneDoesNotOverlapBatches) {
  if (GetParam().kind == Kind::host) {
    EXPECT_THROW(run(1, std::chrono::milliseconds(20)), TimedOut);
  } else {
    EXPECT_THROW(run(1, std::chrono::milliseconds(20)), DeviceLost);
  }
}

class MixedLanes : public ::testing::TestWithParam<Driver> {};

INSTANTIATE_TEST_SUITE_P(All, MixedLanes, ::testing::Values(Driver::interleaved, Driver::threaded));

TEST_P(MixedLanes, StreamHostStreamLanesComputeEveryBatch) {
  FakeLane first("first"), last("last");
  HostLane host("host");
  constexpr std::size_t kDepth = 4;
  std::vector<std::uint64_t> slots(kDepth), results;
  HookedWork work;
  work.on_run = [&](std::size_t lane, std::uint64_t batch, std::size_t slot) {
    if (lane == 0) first.enqueue([&, batch, slot] { slots[slot] = batch; });
    if (lane == 1) slots[slot] = 10 * slots[slot] + 1;
    if (lane == 2) last.enqueue([&, slot] { results.push_back(slots[slot]); });
  };
  LaneThreads threads;
  Schedule schedule({&first, &host, &last}, kDepth, 1, work);
  schedule.run(kBatches, GetParam(), threads);
  ASSERT_EQ(results.size(), kBatches);
  for (std::uint64_t batch = 0; batch < kBatches; ++batch)
    EXPECT_EQ(results[batch], 10 * batch + 1);
}

TEST(Schedule, InvalidLanesDepthOrRunAheadThrows) {
  TestLanes lanes(Kind::host, 3);
  HookedWork work;
  EXPECT_THROW(Schedule(lanes.all(), 2, 1, work), std::logic_error);
  EXPECT_THROW(Schedule(lanes.all(), 3, 0, work), std::logic_error);
  EXPECT_THROW(Schedule({}, 1, 1, work), std::logic_error);
  Schedule(lanes.all(), 3, 1, work);
}

}  // namespace
}  // namespace slipstream::test
