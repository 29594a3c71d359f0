#include "engine/measures.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace slipstream::test {
namespace {

constexpr std::size_t kBatchSize = 8;

/// `seconds` is the duration of each step, `filled` the number of filled batches at its start;
/// empty: no loader.
RunResult make_run(const std::vector<double>& seconds,
                   const std::vector<std::size_t>& filled = {}) {
  RunResult result;
  result.lanes.resize(1);
  double now_s = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (!filled.empty()) result.inputs.push_back({filled[i], 0, now_s});
    now_s += seconds[i];
    result.step_end_s.push_back(now_s);
  }
  return result;
}

/// Steps take 10 ms while at least one of `ahead` prefetched batches is left, then 20 ms, as
/// loading a batch does.
RunResult make_starving_run(std::size_t ahead, std::size_t steps) {
  std::vector<double> seconds;
  std::vector<std::size_t> filled;
  for (std::size_t i = 0; i < steps; ++i) {
    filled.push_back(ahead - std::min(ahead, i / 2));
    seconds.push_back(filled.back() > 0 ? 0.010 : 0.020);
  }
  return make_run(seconds, filled);
}

Measured compute_rate(const RunResult& run) { return step_rate(run, {}, kBatchSize); }

TEST(StepRate, ExcludesWarmUpSteps) {
  std::vector<double> seconds(40, 0.010);
  std::fill_n(seconds.begin(), warm_up_steps(40), 1.0);
  EXPECT_NEAR(compute_rate(make_run(seconds)).value, 100, 1e-6);
  EXPECT_EQ(compute_rate(make_run(seconds)).n, 16U);
  EXPECT_EQ(compute_rate(make_run({1.0})).n, 0U);
  EXPECT_EQ(compute_rate(make_run({})).n, 0U);
}

TEST(StepRate, ExcludesStepsFedByPrefetchedBatches) {
  EXPECT_NEAR(compute_rate(make_starving_run(8, 40)).value, 50, 1.5)
      << "one step may use the last prefetched batch";
  EXPECT_NEAR(compute_rate(make_starving_run(8, 400)).value, 50, 1e-6);
}

TEST(StepRate, IncludesAllStepsOfCachedBatches) {
  const RunResult run = make_starving_run(8, 40);
  EXPECT_NEAR(step_rate(run, Cut{"collate", 4}, kBatchSize).value, 30 / (6 * 0.010 + 24 * 0.020),
              1e-6);
}

TEST(StepRate, DrainingQueueGivesLoaderRate) {
  EXPECT_NEAR(compute_rate(make_starving_run(30, 40)).value, 50, 1e-6)
      << "prefetched batches last to the end";
  const Measured rate = compute_rate(make_starving_run(18, 40));
  EXPECT_NEAR(rate.value, 50, 8) << "the queue is used up shortly before the end";
  EXPECT_LT(rate.low, 50);
  EXPECT_EQ(rate.n, 16U);
}

TEST(StepRate, OneLateBatchDoesNotChangeTheRate) {
  std::vector<std::size_t> filled(400, 4);
  filled[395] = 0;
  const Measured rate = compute_rate(make_run(std::vector<double>(400, 0.010), filled));
  EXPECT_NEAR(rate.value, 100, 1e-6);
  EXPECT_EQ(rate.n, 16U);
}

}  // namespace
}  // namespace slipstream::test
