#include "engine/steady_rate.h"

#include <gmock/gmock.h>

#include "engine/auto_choice.h"

namespace slipstream::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Returns the inputs of steps of one second each. Step i took its batch half a second after the
/// start of step i - ahead[i].
std::vector<StepInput> inputs(const std::vector<std::size_t>& filled,
                              const std::vector<std::size_t>& ahead = {}) {
  std::vector<StepInput> all;
  for (std::size_t i = 0; i < filled.size(); ++i) {
    const std::size_t before = ahead.empty() ? 0 : ahead[i];
    all.push_back({filled[i], 0, static_cast<double>(i - std::min(i, before)) + 0.5});
  }
  return all;
}

/// Returns the end times of steps of one second each.
std::vector<double> ends(std::size_t steps) {
  std::vector<double> all(steps);
  for (std::size_t i = 0; i < steps; ++i) all[i] = static_cast<double>(i + 1);
  return all;
}

std::size_t steady_from(const std::vector<StepInput>& inputs, std::size_t lanes) {
  return first_steady_step(inputs, ends(inputs.size()), lanes);
}

double count_spared_steps(const std::vector<StepInput>& inputs, std::size_t first,
                          std::size_t partly_filled_batches) {
  return spared_steps(inputs, ends(inputs.size()), first, partly_filled_batches);
}

TEST(SteadyState, BeginsWhenPrefetchedBatchesAreUsedUp) {
  EXPECT_EQ(steady_from(inputs({5, 4, 3, 2, 1, 0, 0, 1, 0}), 1), 5U);
  EXPECT_EQ(steady_from(inputs({0, 0, 0, 0, 0}), 1), 2U);
}

TEST(SteadyState, BeginsWhenBatchesTakenInAdvanceAreUsedUp) {
  std::vector<std::size_t> ahead = {0, 1, 2, 3, 3, 3, 2, 1, 0, 0};
  const auto starts_to_starve = inputs({4, 3, 2, 0, 0, 0, 0, 0, 0, 0}, ahead);
  EXPECT_EQ(steady_from(starts_to_starve, 1), 4U) << "a later start would leave too few steps";
  EXPECT_DOUBLE_EQ(count_spared_steps(starts_to_starve, 4, 1), 2);
  ahead.resize(16);
  const auto starves = inputs({4, 3, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, ahead);
  EXPECT_EQ(steady_from(starves, 1), 8U)
      << "the batch after that of step 7 was not ready when the step ended";
  const auto is_fed = inputs({0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 3, 3, 3, 3, 3, 3});
  EXPECT_EQ(steady_from(is_fed, 1), 2U) << "the number of batches taken in advance is constant";
  EXPECT_DOUBLE_EQ(count_spared_steps(is_fed, 2, 1), 0);
  auto waits_once = is_fed;
  waits_once.back().taken_s += 2;
  EXPECT_EQ(steady_from(waits_once, 1), 2U) << "one late batch says nothing about the others";
  EXPECT_DOUBLE_EQ(count_spared_steps(waits_once, 2, 1), 0);
  const auto is_short = inputs({4, 3, 2, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 3, 3, 3, 3});
  EXPECT_EQ(steady_from(is_short, 1), 4U);
  EXPECT_DOUBLE_EQ(count_spared_steps(is_short, 4, 1), 3)
      << "these batches may have fed most of the steps";
}

TEST(SteadyState, BeginsAfterLanesAreFilledIfQueueStaysFull) {
  EXPECT_EQ(steady_from(inputs({4, 4, 4, 4, 4, 4}), 3), 4U);
  EXPECT_EQ(first_steady_step({}, {}, 3), 4U) << "no loader runs";
}

TEST(SteadyState, DrainingFactorIsAboveOneOnlyIfQueueShrinksSteadily) {
  EXPECT_DOUBLE_EQ(draining_factor(inputs({9, 9, 9, 9, 9, 8, 7, 6, 5, 4, 4, 4, 4}), 1),
                   8.0 / (8 - 5));
  EXPECT_DOUBLE_EQ(draining_factor(inputs({7, 7, 7, 6, 5, 5}), 2), 1) << "too few steps";
  EXPECT_DOUBLE_EQ(draining_factor(inputs({4, 4, 4, 4, 4}), 1), 1);
  EXPECT_DOUBLE_EQ(draining_factor(inputs({4, 3, 4, 3, 4, 3}), 1), 1) << "no trend";
  EXPECT_DOUBLE_EQ(draining_factor({}, 2), 1);
}

TEST(SteadyState, SparedStepsCountPrefetchedBatchesUsed) {
  EXPECT_DOUBLE_EQ(count_spared_steps(inputs({5, 5, 4, 4, 3, 3}), 2, 1), 2);
  EXPECT_DOUBLE_EQ(count_spared_steps(inputs({5, 5, 4, 4, 4, 4}), 2, 1), 1);
  EXPECT_DOUBLE_EQ(count_spared_steps(inputs({5, 5, 5, 4, 5, 5}), 2, 1), 0) << "full at both ends";
  EXPECT_DOUBLE_EQ(count_spared_steps(inputs({3, 3, 3, 4, 4, 4}), 2, 1), 1);
  EXPECT_DOUBLE_EQ(count_spared_steps(inputs({7, 7, 6, 6, 6, 6}), 2, 3), 3)
      << "the queue was fuller once";
  EXPECT_DOUBLE_EQ(count_spared_steps(inputs({2, 1, 0, 0, 1, 0}), 3, 1), 0) << "used up";
  EXPECT_DOUBLE_EQ(count_spared_steps(inputs({0, 1, 5, 4, 3, 2}), 2, 1), 4)
      << "the batches arrived together";
  EXPECT_DOUBLE_EQ(spared_steps({}, {}, 3, 1), 0) << "no loader runs";
}

/// Returns a run with these durations of steps, and with this number of filled batches at the start
/// of each.
RunResult run_filled(const std::vector<std::size_t>& filled, const std::vector<double>& seconds) {
  RunResult result;
  result.lanes.resize(1);
  result.plan.schedule.depth = 1;
  double now_s = 0;
  for (std::size_t i = 0; i < filled.size(); ++i) {
    result.inputs.push_back({filled[i], 0, now_s});
    now_s += seconds[i];
    result.step_end_s.push_back(now_s);
  }
  return result;
}

/// The first steps use `ahead` prefetched batches and take 10 ms each; then the loader, which needs
/// 20 ms per batch, is the bottleneck.
RunResult starving_run(std::size_t ahead, std::size_t steps) {
  std::vector<std::size_t> filled(steps, 0);
  std::vector<double> seconds(steps);
  for (std::size_t i = 0; i < steps; ++i) seconds[i] = i % 2 == 0 ? 0.0198 : 0.0202;
  for (std::size_t i = 0; i < ahead; ++i) {
    filled[i] = ahead - i;
    seconds[i] = 0.010;
  }
  return run_filled(filled, seconds);
}

/// The device is the bottleneck; durations differ by a tenth of `seconds`.
RunResult fed(double seconds, std::size_t steps) {
  std::vector<double> all(steps, seconds);
  for (std::size_t i = 0; i < steps; ++i) all[i] *= i % 2 == 0 ? 0.95 : 1.05;
  return run_filled(std::vector<std::size_t>(steps, 4), all);
}

SteadyRate compute_steady_rate(const std::vector<RunResult>& runs) {
  SteadyRate rate;
  for (const RunResult& run : runs) rate.add(run, 8);
  return rate;
}

TEST(SteadyRate, ExcludesStepsFedByPrefetchedBatches) {
  const SteadyRate rate = compute_steady_rate({starving_run(8, 20), starving_run(0, 20)});
  ASSERT_TRUE(rate.is_measured());
  EXPECT_NEAR(rate.rate().value, 50, 0.5);
  EXPECT_FALSE(compute_steady_rate({run_filled({1, 0}, {0.01, 0.01})}).is_measured());
}

TEST(AutoChoice, InputBoundPlansDoNotDifferBeyondNoise) {
  // The first turn begins with a full queue, the others with an empty one.
  const AutoChoice choice =
      choose_mode(compute_steady_rate({starving_run(8, 20), starving_run(0, 20)}),
                  compute_steady_rate({starving_run(1, 20), starving_run(0, 20)}));
  EXPECT_NEAR(choice.serial.value, 50, 0.5);
  EXPECT_NEAR(choice.pipelined.value, 50, 0.5);
  EXPECT_THAT(choice.reason, HasSubstr("do not differ by more than the noise"));
}

TEST(AutoChoice, FasterModeIsKept) {
  const SteadyRate slow = compute_steady_rate({fed(0.020, 30)}),
                   fast = compute_steady_rate({fed(0.010, 30)});
  EXPECT_EQ(choose_mode(slow, fast).chosen, "pipelined");
  EXPECT_THAT(choose_mode(slow, fast).reason,
              AllOf(HasSubstr("pipelined 100 steps/s, serial 50 steps/s"),
                    HasSubstr("28 and 28 steady steps")));
  EXPECT_EQ(choose_mode(fast, slow).chosen, "serial");
}

TEST(AutoChoice, GraphIsKeptIfItIsFasterThanTheChosenPlan) {
  const SteadyRate slow = compute_steady_rate({fed(0.020, 30)}),
                   fast = compute_steady_rate({fed(0.010, 30)}),
                   fastest = compute_steady_rate({fed(0.005, 30)}),
                   none = compute_steady_rate({run_filled({1, 0}, {0.01, 0.01})});
  const AutoChoice choice = with_graph(choose_mode(slow, fast), fastest);
  EXPECT_EQ(choice.chosen, "graph");
  EXPECT_NEAR(choice.graph.value, 200, 0.5);
  EXPECT_THAT(choice.reason, HasSubstr("graph 200 steps/s, pipelined 100 steps/s, serial 50"));
  EXPECT_EQ(with_graph(choose_mode(slow, fastest), fast).chosen, "pipelined");
  EXPECT_EQ(with_graph(choose_mode(fastest, slow), fast).chosen, "serial");
  EXPECT_EQ(with_graph(choose_mode(slow, fast), none).chosen, "pipelined");
  EXPECT_THAT(with_graph(choose_mode(slow, fast), none).reason, HasSubstr("measure graph"));
}

TEST(AutoChoice, PipelinedIsKeptIfDifferenceIsBelowNoise) {
  const SteadyRate one = compute_steady_rate({fed(0.0200, 30)}),
                   other = compute_steady_rate({fed(0.0199, 30)});
  const AutoChoice choice = choose_mode(one, other);
  EXPECT_EQ(choice.chosen, "pipelined");
  EXPECT_EQ(choice.reason,
            "pipelined 50.25 and serial 50 steps/s do not differ by more than the noise");
}

TEST(AutoChoice, SerialIsKeptWithoutSteadySteps) {
  const SteadyRate none = compute_steady_rate({run_filled({1, 0}, {0.01, 0.01})}),
                   some = compute_steady_rate({fed(0.01, 30)});
  for (const AutoChoice& choice :
       {choose_mode(none, none), choose_mode(some, none), choose_mode(none, some)}) {
    EXPECT_EQ(choice.chosen, "serial");
    EXPECT_THAT(choice.reason, HasSubstr("too few steps"));
  }
  EXPECT_THAT(choose_mode(none, some).reason, HasSubstr("all steps of serial may have used"));
}

TEST(AutoChoice, StepsFedByPrefetchedBatchesAreInconclusive) {
  // The runs are too short to use up the queue.
  const auto draining = [](double seconds) {
    return compute_steady_rate(
        {run_filled({9, 8, 7, 6, 5, 4, 3}, std::vector<double>(7, seconds))});
  };
  EXPECT_THAT(choose_mode(draining(0.012), draining(0.018)).reason,
              HasSubstr("do not differ by more than prefetched batches may have hidden"));
}

}  // namespace
}  // namespace slipstream::test
