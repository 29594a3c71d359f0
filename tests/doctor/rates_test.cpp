#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "doctor/findings.h"
#include "doctor/ladder.h"
#include "doctor/training_rate.h"
#include "doctor/usage.h"

namespace slipstream::test {
namespace {

using testing::HasSubstr;

/// Of steps of a second, whose batches were taken when the step `ahead` before them had ended.
std::vector<StepInput> inputs(const std::vector<std::size_t>& filled,
                              const std::vector<std::size_t>& ahead = {}) {
  std::vector<StepInput> all;
  for (std::size_t i = 0; i < filled.size(); ++i) {
    const std::size_t before = ahead.empty() ? 0 : ahead[i];
    all.push_back({filled[i], 0, static_cast<double>(i - std::min(i, before)) + 0.5});
  }
  return all;
}

/// When steps of a second end.
std::vector<double> ends(std::size_t steps) {
  std::vector<double> all(steps);
  for (std::size_t i = 0; i < steps; ++i) all[i] = static_cast<double>(i + 1);
  return all;
}

std::size_t steady_from(const std::vector<StepInput>& inputs, std::size_t lanes) {
  return first_steady_step(inputs, ends(inputs.size()), lanes);
}

double spared(const std::vector<StepInput>& inputs, std::size_t first, std::size_t half_made) {
  return spared_steps(inputs, ends(inputs.size()), first, half_made);
}

TEST(SteadyState, BeginsWhenTheBatchesFilledAheadAreUsedUp) {
  EXPECT_EQ(steady_from(inputs({5, 4, 3, 2, 1, 0, 0, 1, 0}), 1), 5U);
  EXPECT_EQ(steady_from(inputs({0, 0, 0, 0, 0}), 1), 2U);
}

TEST(SteadyState, BeginsWhenTheBatchesTakenAheadAreUsedUp) {
  std::vector<std::size_t> ahead = {0, 1, 2, 3, 3, 3, 2, 1, 0, 0};
  const auto starts_to_starve = inputs({4, 3, 2, 0, 0, 0, 0, 0, 0, 0}, ahead);
  EXPECT_EQ(steady_from(starts_to_starve, 1), 4U) << "too few steps would be left";
  EXPECT_DOUBLE_EQ(spared(starts_to_starve, 4, 1), 2);
  ahead.resize(16);
  const auto starves = inputs({4, 3, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, ahead);
  EXPECT_EQ(steady_from(starves, 1), 8U) << "the batch behind step 7 was not there when it ended";
  const auto is_fed = inputs({0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 3, 3, 3, 3, 3, 3});
  EXPECT_EQ(steady_from(is_fed, 1), 2U) << "as many are taken ahead all the time";
  EXPECT_DOUBLE_EQ(spared(is_fed, 2, 1), 0);
  auto waits_once = is_fed;
  waits_once.back().taken_s += 2;
  EXPECT_EQ(steady_from(waits_once, 1), 2U) << "one that came late tells nothing of the others";
  EXPECT_DOUBLE_EQ(spared(waits_once, 2, 1), 0);
  const auto is_short = inputs({4, 3, 2, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 3, 3, 3, 3});
  EXPECT_EQ(steady_from(is_short, 1), 4U);
  EXPECT_DOUBLE_EQ(spared(is_short, 4, 1), 3) << "it may be those that fed most of its steps";
}

TEST(SteadyState, BeginsAtOnceWhereTheQueueStaysFull) {
  EXPECT_EQ(steady_from(inputs({4, 4, 4, 4, 4, 4}), 3), 4U);
  EXPECT_EQ(first_steady_step({}, {}, 3), 4U) << "no loader runs";
}

TEST(SteadyState, StepsThatDrainTheQueueCountForMore) {
  EXPECT_DOUBLE_EQ(draining_factor(inputs({9, 9, 9, 9, 9, 8, 7, 6, 5, 4, 4, 4, 4}), 1),
                   8.0 / (8 - 5));
  EXPECT_DOUBLE_EQ(draining_factor(inputs({7, 7, 7, 6, 5, 5}), 2), 1) << "too few steps to say";
  EXPECT_DOUBLE_EQ(draining_factor(inputs({4, 4, 4, 4, 4}), 1), 1);
  EXPECT_DOUBLE_EQ(draining_factor(inputs({4, 3, 4, 3, 4, 3}), 1), 1) << "no trend";
  EXPECT_DOUBLE_EQ(draining_factor({}, 2), 1);
}

TEST(SteadyState, BatchesFilledAheadMaySpareWaits) {
  EXPECT_DOUBLE_EQ(spared(inputs({5, 5, 4, 4, 3, 3}), 2, 1), 2);
  EXPECT_DOUBLE_EQ(spared(inputs({5, 5, 4, 4, 4, 4}), 2, 1), 1);
  EXPECT_DOUBLE_EQ(spared(inputs({5, 5, 5, 4, 5, 5}), 2, 1), 0) << "full at both ends";
  EXPECT_DOUBLE_EQ(spared(inputs({3, 3, 3, 4, 4, 4}), 2, 1), 1);
  EXPECT_DOUBLE_EQ(spared(inputs({7, 7, 6, 6, 6, 6}), 2, 3), 3) << "once it was fuller";
  EXPECT_DOUBLE_EQ(spared(inputs({2, 1, 0, 0, 1, 0}), 3, 1), 0) << "used up";
  EXPECT_DOUBLE_EQ(spared(inputs({0, 1, 5, 4, 3, 2}), 2, 1), 4) << "they came at once";
  EXPECT_DOUBLE_EQ(spared_steps({}, {}, 3, 1), 0) << "no loader runs";
}

TEST(Findings, ABatchThatTakesLongerIsSeen) {
  const std::vector<double> fast = {1.0, 1.01, 0.99, 1.0, 1.02, 1.0, 1.01, 0.99};
  std::vector<double> slow = fast;
  for (double& each : slow) each *= 1.2;
  EXPECT_THAT(depends_on_data({fast, slow, fast}).value_or(""), HasSubstr("20 %"));
  EXPECT_FALSE(depends_on_data({fast, fast}));
  EXPECT_FALSE(depends_on_data({fast}));
  const std::vector<double> wild = {1.0, 2.0, 0.5, 1.5, 1.0, 3.0, 0.7, 1.2};
  EXPECT_FALSE(depends_on_data({wild, slow})) << "steps on one batch differ as much";
  EXPECT_FALSE(depends_on_data({{1.0, 1.0}, {2.0, 2.0}})) << "too few to say";
}

TEST(Findings, OtherProcessesOnTheGpuAreNamed) {
  EXPECT_FALSE(shares_gpu(std::nullopt));
  EXPECT_FALSE(shares_gpu(1));
  EXPECT_THAT(shares_gpu(2).value_or(""), HasSubstr("2 processes"));
}

TEST(Findings, SkippedSamplesAreNamed) {
  RunResult result;
  EXPECT_FALSE(skips(result));
  result.skipped = {3, {{7, "sample 7, a.jpg: damaged"}, {9, "b.jpg"}}};
  EXPECT_THAT(skips(result).value_or(""),
              testing::AllOf(HasSubstr("were skipped, 2 "), HasSubstr("sample 7, a.jpg: damaged")));
}

TEST(Findings, VariationIsOfWholeSamples) {
  StepLaps read{"read", {1, 3}, {0, 0}};
  StepLaps decode{"decode", {3, 1}, {0, 0}};
  EXPECT_DOUBLE_EQ(variation_of({read, decode}), 0);
  EXPECT_NEAR(variation_of({read}), std::sqrt(2.0) / 2, 1e-6);
}

TEST(GpuUse, IsTheMeanOverTimeOfWhatWasTold) {
  MeanGpuUse use;
  EXPECT_FALSE(use.value().coarse);
  use.add({std::nullopt, std::nullopt, 0.5, 1, "too short"}, 0);
  EXPECT_EQ(use.value().note, "too short");
  use.add({0.9, std::nullopt, 0.5, 1, "no DRAM counter"}, 3);
  use.add({0.1, 0.25, std::nullopt, 2, ""}, 1);
  const cuda::GpuUse mean = use.value();
  EXPECT_DOUBLE_EQ(mean.sm_activity.value(), 0.7);
  EXPECT_DOUBLE_EQ(mean.dram_use.value(), 0.25);
  EXPECT_DOUBLE_EQ(mean.coarse.value(), 0.5);
  EXPECT_EQ(mean.processes, 2U);
  EXPECT_EQ(mean.note, "");
}

}  // namespace
}  // namespace slipstream::test
