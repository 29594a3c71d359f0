#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "engine/engine.h"
#include "support/slow_set.h"

namespace slipstream::test {
namespace {

using testing::HasSubstr;

class AutoTest : public EngineTest {
 protected:
  /// Returns false if a plan had no steady step, which is possible in such short turns.
  static bool has_measured(const AutoChoice& choice) {
    return choice.serial.n > 0 && choice.pipelined.n > 0;
  }
};

TEST_F(AutoTest, AutoRunGivesSerialDigestAndReportsEachStepOnce) {
  const std::uint64_t serial = fresh_run({}, serial_plan(), steps(50)).digest;
  for (std::uint64_t n : {std::uint64_t{50}, std::uint64_t{7}}) {
    const auto one = trainer({});
    std::vector<std::uint64_t> reported;
    std::set<double> parts;
    RunOptions options = steps(n);
    std::set<std::string> measured;
    options.progress = [&](const Progress& progress) {
      EXPECT_EQ(progress.steps, n);
      if (!progress.measuring.empty()) {
        EXPECT_EQ(progress.step, 24U);
        measured.insert(progress.measuring);
        return;
      }
      reported.push_back(progress.step);
      EXPECT_LE(progress.part_began_s, progress.elapsed_s);
      parts.insert(progress.part_began_s);
    };
    const Plan pipelined = build_plan(kThreeLanes, Driver::threaded, 3);
    const AutoResult result = run_auto(*one, serial_plan(), pipelined, options);
    EXPECT_EQ(parts.size(), n == 50 ? 5U : 1U);
    EXPECT_EQ(measured.size(), n == 50 ? 3U : 0U);
    EXPECT_EQ(one->position(), n);
    EXPECT_EQ(result.run.steps, n);
    EXPECT_EQ(result.run.losses.size(), n);
    EXPECT_EQ(result.run.accuracies.size(), n);
    EXPECT_EQ(result.run.step_end_s.size(), n);
    EXPECT_TRUE(std::is_sorted(result.run.step_end_s.begin(), result.run.step_end_s.end()));
    EXPECT_FALSE(result.run.interrupted);
    EXPECT_FALSE(result.choice.reason.empty());
    EXPECT_EQ(result.run.plan.schedule.mode, result.choice.chosen);
    EXPECT_EQ(result.run.overlap.has_value(), has_measured(result.choice));
    if (n == 7) {
      EXPECT_EQ(result.choice.chosen, "serial");
    }
    for (const StepCounter& counter : result.run.counters)
      if (counter.name == "encode" || counter.name == "train") {
        EXPECT_EQ(counter.calls, n) << counter.name;
      }
    for (const Interval& interval : result.run.lanes.back().last_intervals)
      EXPECT_DOUBLE_EQ(interval.end_s, result.run.step_end_s.at(interval.step));
    EXPECT_EQ(result.run.digest, n == 50 ? serial : fresh_run({}, serial_plan(), steps(n)).digest);
    ASSERT_EQ(reported.size(), n);
    for (std::uint64_t i = 0; i < n; ++i) EXPECT_EQ(reported[i], i + 1);
  }
}

TEST_F(AutoTest, ChoosesFasterMeasuredModeElseSerial) {
  const auto one = trainer({});
  const AutoResult result =
      run_auto(*one, serial_plan(), build_plan(kThreeLanes, Driver::threaded, 3), steps(60));
  const AutoChoice& choice = result.choice;
  const bool is_faster = choice.pipelined.value > choice.serial.value;
  EXPECT_EQ(choice.chosen, has_measured(choice) && is_faster ? "pipelined" : "serial");
  EXPECT_THAT(choice.reason, HasSubstr(has_measured(choice) ? "steps/s" : "too few steps"));
  if (has_measured(choice)) {
    EXPECT_EQ(result.run.overlap->alone_steps_per_second.size(), 3U);
  }
}

TEST_F(AutoTest, PlanWithGraphsIsMeasuredAndGivesSerialDigest) {
  if (!on_gpu()) GTEST_SKIP() << "a CPU has no CUDA graphs";
  const Plan pipelined = build_plan(kThreeLanes, Driver::threaded, 4);
  Plan graph = pipelined;
  graph.schedule.mode = "graph";
  graph.schedule.graphs = true;
  const auto one = trainer({});
  const AutoResult result = run_auto(*one, serial_plan(), pipelined, steps(420), graph);
  EXPECT_EQ(result.run.steps, 420U);
  EXPECT_EQ(result.run.digest, fresh_run({}, serial_plan(), steps(420)).digest);
  EXPECT_EQ(result.run.plan.schedule.mode, result.choice.chosen);
  EXPECT_GT(result.choice.graph.n, 0U);
  ASSERT_TRUE(result.run.graphs.has_value());
  EXPECT_EQ(result.run.graphs->graphs, 8U);
  const auto short_run = trainer({});
  EXPECT_FALSE(run_auto(*short_run, serial_plan(), pipelined, steps(60), graph).run.graphs);
}

TEST_F(AutoTest, StopReturnsResultOfCompletedSteps) {
  // The stops are during the turns of 6 steps and, for 45, after the 18 steps that measure single
  // lanes.
  for (std::uint64_t stop_after : {0, 3, 20, 45}) {
    const auto one = trainer({});
    std::uint64_t asked = 0;
    RunOptions options = steps(50);
    options.stop = [&] { return asked++ >= stop_after + (stop_after > 24 ? 18 : 0); };
    const AutoResult result =
        run_auto(*one, serial_plan(), build_plan(kThreeLanes, Driver::threaded, 3), options);
    EXPECT_TRUE(result.run.interrupted) << stop_after;
    EXPECT_EQ(result.run.steps, stop_after);
    EXPECT_EQ(result.run.losses.size(), stop_after);
    EXPECT_EQ(one->position(), stop_after);
    EXPECT_EQ(result.run.digest, one->digest());
    EXPECT_FALSE(result.choice.reason.empty());
  }
}

TEST_F(AutoTest, StopDuringLaneMeasurementKeepsCompletedSteps) {
  const auto one = trainer({});
  bool measures = false;
  RunOptions options = steps(50);
  options.progress = [&](const Progress& progress) { measures |= !progress.measuring.empty(); };
  options.stop = [&] { return measures; };
  const AutoResult result =
      run_auto(*one, serial_plan(), build_plan(kThreeLanes, Driver::threaded, 3), options);
  EXPECT_TRUE(result.run.interrupted);
  EXPECT_EQ(result.run.steps, 24U);
  EXPECT_EQ(one->position(), 24U);
  EXPECT_FALSE(result.run.overlap);
  EXPECT_EQ(result.run.digest, fresh_run({}, serial_plan(), steps(24)).digest);
  EXPECT_THAT(result.choice.reason, HasSubstr("stopped before a plan was chosen"));
  EXPECT_EQ(result.choice.chosen, result.run.plan.schedule.mode);
}

/// One worker needs at least the time that the samples of a batch sleep. Batches that were
/// prefetched while a busy machine did not train may increase a measured rate; the lower end of its
/// interval must allow for that.
TEST_F(AutoTest, PrefetchedBatchesDoNotInflateMeasuredRates) {
  constexpr std::uint64_t kQuick = 4 * 24;
  constexpr double kBatchSeconds = 0.01;
  const auto data =
      std::make_shared<SlowSet>(synthetic_segmentation({256, 8, 5, 1}), kBatchSeconds / 4, kQuick);
  Tiny tiny;
  tiny.dataset = data;
  tiny.extra = {
      {"wait", [&](Batch&) { data->samples_read().await(kQuick, "the batches filled ahead"); }}};
  const auto one = trainer(tiny);
  const auto fed_ahead = [](Plan plan) {
    plan.schedule.loader.num_workers = 1;
    plan.schedule.loader.prefetch_batches = 24;
    return plan;
  };
  const Lanes lanes = {{"copy"}, {"encode", "wait"}, {"train"}};
  const AutoResult result = run_auto(*one, fed_ahead(serial_plan({"wait"})),
                                     fed_ahead(build_plan(lanes, Driver::threaded, 3)), steps(240));
  EXPECT_LT(result.choice.serial.low, 2 / kBatchSeconds);
  EXPECT_LT(result.choice.pipelined.low, 2 / kBatchSeconds);
}

TEST_F(AutoTest, OverlapEfficiencyIsFractionOfPossibleGain) {
  const Measured serial{10, 10, 10, "steps/s", 1};
  const Measured bound{20, 20, 20, "steps/s", 1};
  EXPECT_DOUBLE_EQ(overlap_efficiency(serial, bound, bound).value, 1);
  EXPECT_DOUBLE_EQ(overlap_efficiency(serial, serial, bound).value, 0);
  EXPECT_DOUBLE_EQ(overlap_efficiency(serial, {40.0 / 3, 40.0 / 3, 40.0 / 3, "", 1}, bound).value,
                   0.5);
  EXPECT_EQ(overlap_efficiency(serial, serial, serial).value, 0);
  const Measured wide = overlap_efficiency(serial, {15, 12, 18, "", 1}, bound);
  EXPECT_LT(wide.low, wide.value);
  EXPECT_GT(wide.high, wide.value);
}

}  // namespace
}  // namespace slipstream::test
