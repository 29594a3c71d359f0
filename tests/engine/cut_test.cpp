#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/engine.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kCutSteps = 12;

class CutTest : public EngineTest {
 protected:
  static const std::vector<std::string>& all_steps() {
    static const std::vector<std::string> steps = {"read", "decode", "resize", "collate",
                                                   "copy", "encode", "count",  "train"};
    return steps;
  }

  static Pipeline declared() {
    Tiny tiny;
    tiny.stored_size = 12;
    tiny.extra = {{"count", [](Batch&) {}}};
    return tiny_pipeline(tiny);
  }

  static Plan pipelined() {
    return build_plan({{"copy"}, {"encode", "count"}, {"train"}}, Driver::threaded, 3);
  }

  static std::map<std::string, std::uint64_t> calls(const RunResult& result) {
    std::map<std::string, std::uint64_t> calls;
    for (const StepCounter& counter : result.counters) calls[counter.name] += counter.calls;
    return calls;
  }
};

TEST_F(CutTest, CutAfterAnyStepSkipsThatStepAndEarlierOnes) {
  for (const Plan& plan : {serial_plan({"count"}), pipelined()})
    for (std::size_t cut = 0; cut + 1 < all_steps().size(); ++cut)
      for (std::size_t items : {1, 3}) {
        SCOPED_TRACE(describe(plan) + ", after " + all_steps()[cut]);
        Trainer one(declared(), context(), exact());
        RunOptions options = steps(kCutSteps);
        options.cut = Cut{all_steps()[cut], items};
        const RunResult result = one.run(plan, options);
        auto calls = CutTest::calls(result);
        for (std::size_t i = 0; i < all_steps().size(); ++i) {
          const std::string& step = all_steps()[i];
          if (i <= cut)
            EXPECT_EQ(calls[step], 0U) << step;
          else if (i < 4)
            EXPECT_GE(calls[step], kCutSteps * 4) << step;
          else
            EXPECT_EQ(calls[step], kCutSteps) << step;
        }
        EXPECT_EQ(result.losses.size(), kCutSteps);
        EXPECT_EQ(one.position(), 0U) << "steps on cached batches do not count as training";
      }
}

TEST_F(CutTest, CachedItemsRepeatInOrder) {
  for (const char* after : {"read", "collate", "copy", "encode"}) {
    Tiny tiny;
    tiny.lr = 0;
    Trainer one(tiny_pipeline(tiny), context(), exact());
    RunOptions options = steps(kCutSteps);
    options.cut = Cut{after, std::string(after) == "read" ? 12U : 3U};
    const std::vector<float> losses = one.run(serial_plan(), options).losses;
    ASSERT_EQ(losses.size(), kCutSteps);
    EXPECT_NE(losses[0], losses[1]) << after;
    for (std::size_t i = 3; i < losses.size(); ++i) EXPECT_EQ(losses[i], losses[i - 3]) << after;
  }
}

TEST_F(CutTest, StepsAfterLastStepDoNotRun) {
  for (const Plan& plan : {serial_plan({"count"}), pipelined()})
    for (std::size_t last = 4; last < all_steps().size() - 1; ++last) {
      SCOPED_TRACE(describe(plan) + ", to " + all_steps()[last]);
      Trainer one(declared(), context(), exact());
      const std::uint64_t digest = one.digest();
      RunOptions options = steps(kCutSteps);
      options.last_step = all_steps()[last];
      const RunResult result = one.run(plan, options);
      auto calls = CutTest::calls(result);
      for (std::size_t i = 4; i < all_steps().size(); ++i)
        EXPECT_EQ(calls[all_steps()[i]], i <= last ? kCutSteps : 0U) << all_steps()[i];
      EXPECT_GE(calls["read"], kCutSteps * 4);
      EXPECT_TRUE(result.losses.empty());
      EXPECT_EQ(result.step_end_s.size(), kCutSteps);
      EXPECT_EQ(one.position(), 0U);
      EXPECT_EQ(one.digest(), digest);
    }
}

TEST_F(CutTest, MeasuringLanesDoesNotChangeTraining) {
  Trainer one(declared(), context(), exact());
  one.run(pipelined(), steps(5));
  const std::uint64_t digest = one.digest();
  RunOptions cut = steps(3);
  cut.last_step = "encode";
  const auto alone = measure_lanes_alone(one, pipelined(), 6);
  one.run(pipelined(), cut);
  ASSERT_EQ(alone.size(), 3U);
  EXPECT_EQ(alone[0].first, "copy");
  EXPECT_EQ(alone[1].first, "count");
  EXPECT_EQ(alone[2].first, "train");
  for (const auto& lane : alone) EXPECT_GT(lane.second.value, 0) << lane.first;
  EXPECT_EQ(one.position(), 5U);
  EXPECT_EQ(one.digest(), digest);
  one.run(pipelined(), steps(7));

  Trainer undisturbed(declared(), context(), exact());
  EXPECT_EQ(one.digest(), undisturbed.run(serial_plan({"count"}), steps(12)).digest);
}

TEST_F(CutTest, StateIsRestoredWhenLaneMeasurementThrowsOrStops) {
  Trainer one(declared(), context(), exact());
  one.run(pipelined(), steps(5));
  const std::uint64_t digest = one.digest();
  std::uint64_t reported = 0;
  const auto fail_while_training = [&](const Progress& progress) {
    ++reported;
    if (progress.measuring == "train") throw std::runtime_error("no luck");
  };
  EXPECT_THAT(thrown_by([&] { measure_lanes_alone(one, pipelined(), 6, {}, fail_while_training); }),
              HasSubstr("no luck"));
  EXPECT_GE(reported, 13U);
  EXPECT_EQ(one.position(), 5U);
  EXPECT_EQ(one.digest(), digest);

  std::uint64_t asked = 0;
  const auto stop = [&] { return ++asked > 15; };  // stops while the third lane is measured
  EXPECT_EQ(measure_lanes_alone(one, pipelined(), 6, stop).size(), 2U);
  EXPECT_EQ(one.digest(), digest);
}

TEST_F(CutTest, FieldsThatStepsChangeInCacheAreReported) {
  for (const bool writes : {false, true}) {
    Tiny tiny;
    tiny.extra = {{"spoil", [writes](Batch& batch) {
                     if (writes) batch.at("image").zero_();
                   }}};
    Trainer one(tiny_pipeline(tiny), context(), exact());
    RunOptions options = steps(4);
    options.cut = Cut{"copy", 2};
    options.check_cache = true;
    const auto changed = one.run(serial_plan({"spoil"}), options).changed_fields;
    EXPECT_EQ(changed, writes ? std::vector<std::string>{"image"} : std::vector<std::string>{});
  }
}

TEST_F(CutTest, EveryStepReportsInputUnlessBatchesAreCached) {
  Trainer one(declared(), context(), exact());
  std::size_t reported = 0;
  double blocked_s = 0, busy_s = 0;
  RunOptions options = steps(kCutSteps);
  options.progress = [&](const Progress& progress) {
    ASSERT_TRUE(progress.input.has_value());
    blocked_s += progress.input->blocked_s;
    EXPECT_GE(progress.blocked_s, blocked_s * (1 - 1e-9));
    EXPECT_GT(progress.busy_s, std::exchange(busy_s, progress.busy_s));
    EXPECT_LE(progress.busy_s, progress.elapsed_s * 1.05 + 0.01);
    EXPECT_EQ(progress.host_counters().front().name, "read");
    ++reported;
  };
  const RunResult result = one.run(pipelined(), options);
  EXPECT_EQ(reported, kCutSteps);
  EXPECT_EQ(result.inputs.size(), kCutSteps);
  for (const StepInput& input : result.inputs) EXPECT_EQ(input.filled == 0, input.blocked_s > 0);
  options.cut = Cut{"copy", 1};
  options.progress = nullptr;
  EXPECT_TRUE(one.run(pipelined(), options).inputs.empty());
}

TEST_F(CutTest, ProgressReportsLoaderCountersOfThisRunOnly) {
  Trainer one(declared(), context(), exact());
  for (int i = 0; i < 2; ++i) {
    std::uint64_t reported = 0;
    RunOptions options = steps(kCutSteps);
    options.progress = [&](const Progress& progress) {
      const std::uint64_t before = std::exchange(reported, progress.host_counters().back().calls);
      EXPECT_GE(reported, before);
    };
    const RunResult result = one.run(pipelined(), options);
    EXPECT_GT(reported, 0U);
    EXPECT_LE(reported, result.counters[3].calls);
  }
}

TEST_F(CutTest, LoaderOfTrainerStartsAtItsPositionAndSkipsCachedSteps) {
  Trainer one(declared(), context(), exact());
  one.run(pipelined(), steps(3));
  const std::uint64_t digest = one.digest();
  const auto loader = one.make_loader(pipelined(), HostCut{"decode", 2});
  const HostBatch batch = loader->next();
  EXPECT_EQ(batch.number, 3U);
  loader->release(batch, nullptr);
  EXPECT_EQ(loader->counters().front().calls, 0U);
  EXPECT_EQ(one.digest(), digest);
}

class RunResultTest : public EngineTest {
 protected:
  static void expect_lanes_fit(const RunResult& result, const Plan& plan) {
    ASSERT_EQ(result.lanes.size(), plan.schedule.lanes.size());
    for (std::size_t i = 0; i < result.lanes.size(); ++i) {
      const LaneResult& lane = result.lanes[i];
      EXPECT_EQ(lane.name, plan.schedule.lanes[i].steps.back());
      EXPECT_EQ(lane.steps, plan.schedule.lanes[i].steps);
      EXPECT_GT(lane.busy_s, 0);
      EXPECT_GE(lane.waiting_s, 0);
      // Device and host clocks may differ slightly.
      EXPECT_NEAR(lane.busy_s + lane.waiting_s, result.wall_s, 0.05 * result.wall_s + 0.01);
      ASSERT_EQ(lane.last_intervals.size(), kKeptIntervals);
      EXPECT_EQ(lane.last_intervals.back().step, result.first_step + result.steps - 1);
      for (std::size_t k = 0; k < lane.last_intervals.size(); ++k) {
        const Interval& now = lane.last_intervals[k];
        EXPECT_LE(now.begin_s, now.end_s);
        if (k == 0) continue;
        EXPECT_EQ(now.step, lane.last_intervals[k - 1].step + 1);
        // Event times have single precision.
        EXPECT_GE(now.begin_s, lane.last_intervals[k - 1].end_s - 1e-5);
      }
    }
  }
};

TEST_F(RunResultTest, HasOneEntryPerStep) {
  for (const Plan& plan : {serial_plan(), build_plan(kThreeLanes, Driver::interleaved, 4),
                           build_plan(kThreeLanes, Driver::threaded, 3)}) {
    SCOPED_TRACE(describe(plan));
    const auto one = trainer({});
    one->run(plan, steps(3));
    std::vector<float> reported;
    RunOptions options = steps(50);
    options.progress = [&](const Progress& progress) {
      EXPECT_EQ(progress.step, reported.size() + 1);
      EXPECT_GE(progress.input_wait_share, 0);
      EXPECT_LE(progress.input_wait_share, 1);
      reported.push_back(progress.loss);
    };
    const RunResult result = one->run(plan, options);
    EXPECT_EQ(result.plan, plan);
    EXPECT_EQ(result.first_step, 3U);
    EXPECT_EQ(result.steps, 50U);
    EXPECT_FALSE(result.interrupted);
    EXPECT_EQ(result.losses.size(), 50U);
    EXPECT_EQ(result.losses, reported);
    EXPECT_EQ(result.accuracies.size(), 50U);
    for (float accuracy : result.accuracies) {
      EXPECT_GE(accuracy, 0);
      EXPECT_LE(accuracy, 1);
    }
    EXPECT_EQ(result.step_end_s.size(), 50U);
    EXPECT_TRUE(std::is_sorted(result.step_end_s.begin(), result.step_end_s.end()));
    EXPECT_LE(result.step_end_s.back(), result.wall_s * 1.05 + 0.01);
    EXPECT_GT(result.steps_per_second.value, 0);
    EXPECT_GE(result.input_wait_share, 0);
    EXPECT_LE(result.input_wait_share, 1);
    expect_lanes_fit(result, plan);
  }
}

TEST_F(RunResultTest, CountersExcludeEarlierRuns) {
  const auto one = trainer({});
  const Plan plan = build_plan(kThreeLanes, Driver::threaded, 3);
  one->run(plan, steps(40));
  const RunResult second = one->run(plan, steps(10));
  for (const StepCounter& counter : second.counters) {
    const bool is_host =
        counter.name != "copy" && counter.name != "encode" && counter.name != "train";
    // The loader may have prefetched some batches.
    EXPECT_LE(counter.calls, is_host ? 4U * (10 + plan.schedule.loader.prefetch_batches) : 10U)
        << counter.name;
    EXPECT_GE(counter.wall_s, 0) << counter.name;
    EXPECT_GE(counter.cpu_s, 0) << counter.name;
  }
  EXPECT_EQ(second.counters.back().calls, 10U);
}

TEST_F(RunResultTest, CountersExcludeBatchesBeforeFirstCounted) {
  const auto one = trainer({});
  RunOptions options = steps(10);
  options.first_counted = 4;
  for (const Driver driver : {Driver::threaded, Driver::interleaved}) {
    const RunResult result = one->run(build_plan(kThreeLanes, driver, 3), options);
    for (const StepCounter& counter : result.counters)
      if (counter.name == "copy" || counter.name == "encode" || counter.name == "train") {
        EXPECT_EQ(counter.calls, 6U) << counter.name;
      }
  }
  options.first_counted = 11;
  EXPECT_EQ(one->run(build_plan(kThreeLanes, Driver::threaded, 3), options).counters.back().calls,
            0U);
}

TEST_F(RunResultTest, StopEndsTheRunAndNextRunResumes) {
  const auto one = trainer({});
  RunOptions options = steps(50);
  std::uint64_t asked = 0;
  options.stop = [&] { return ++asked > 9; };
  const RunResult stopped = one->run(build_plan(kThreeLanes, Driver::threaded, 3), options);
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_EQ(stopped.steps, 9U);
  EXPECT_EQ(one->position(), 9U);
  one->run(serial_plan(), steps(11));
  EXPECT_EQ(one->digest(), fresh_run({}, serial_plan(), steps(20)).digest);
}

TEST_F(RunResultTest, ZeroStepsReturnEmptyResult) {
  const auto one = trainer({});
  const RunResult none = one->run(build_plan(kThreeLanes, Driver::threaded, 3), steps(0));
  EXPECT_EQ(none.steps, 0U);
  EXPECT_TRUE(none.losses.empty());
  EXPECT_EQ(none.digest, one->digest());
}

}  // namespace
}  // namespace slipstream::test
