#include <gmock/gmock.h>

#include <numeric>

#include "doctor/doctor_fixture.h"
#include "doctor/training_rate.h"
#include "support/made_set.h"

namespace slipstream::test {
namespace {

using testing::Each;
using testing::Ge;

TEST_F(DoctorTest, HostStepCostsMatchStatedCosts) {
  static constexpr double kReadS = 0.005, kTransformS = 0.01;
  Tiny tiny = with_transform(slow_op(kTransformS));
  tiny.dataset = set_around(make_samples(tiny), [](std::size_t) {
    std::this_thread::sleep_for(std::chrono::duration<double>(kReadS));
  });
  const Observations observed =
      examine_fully(*trainer(tiny), plan(2), with_budget(kBudgetS)).observed;
  for (const auto& [name, stated_s] :
       std::vector<std::pair<std::string, double>>{{"read", kReadS}, {"slow", kTransformS}}) {
    const HostStepCost& step = step_named(observed, name);
    ASSERT_FALSE(step.wall_s.empty()) << name;
    ASSERT_EQ(step.cpu_s.size(), step.wall_s.size()) << name;
    EXPECT_THAT(step.wall_s, Each(Ge(0.99F * static_cast<float>(stated_s)))) << name;
    EXPECT_LT(std::accumulate(step.cpu_s.begin(), step.cpu_s.end(), 0.0),
              std::accumulate(step.wall_s.begin(), step.wall_s.end(), 0.0) / 2)
        << name << " sleeps, which uses no CPU time";
    EXPECT_GE(step.wall_of_all_s, stated_s / kSlack) << name;
  }
  const double of_one = 1 / (kReadS + kTransformS);
  const auto batch_size = static_cast<double>(tiny.batch_size);
  EXPECT_GT(observed.rate_of_one_worker.value, 0);
  EXPECT_LT(observed.rate_of_one_worker.value, kSlack * of_one);
  EXPECT_GT(observed.rate_of_all_workers.value, 0);
  EXPECT_LT(observed.rate_of_all_workers.value, kSlack * 2 * of_one);
  const Level& whole = level_named(observed, "nothing cached");
  ASSERT_TRUE(whole.with_training) << whole.error;
  EXPECT_LT(whole.with_training->low, kSlack * 2 * of_one / batch_size);
  ASSERT_TRUE(whole.loader_alone) << whole.loader_alone_error;
  EXPECT_LT(whole.loader_alone->value, kSlack * 2 * of_one / batch_size);
}

TEST_F(DoctorTest, StatedTrainingAndCopyCostsLimitLevelRates) {
  Tiny tiny;
  tiny.costs = {.train_s = 0.01, .copy_s = 0.04};
  const Observations observed =
      examine_fully(*trainer(tiny), plan(), with_budget(kBudgetS)).observed;
  const Level &device = level_named(observed, "device batch"),
              &whole = level_named(observed, "nothing cached");
  ASSERT_TRUE(device.with_training) << device.error;
  EXPECT_GT(device.with_training->value, 0);
  EXPECT_LT(device.with_training->value, kSlack / tiny.costs.train_s);
  ASSERT_TRUE(whole.with_training) << whole.error;
  EXPECT_GT(whole.with_training->value, 0);
  EXPECT_LT(whole.with_training->value, kSlack / (tiny.costs.train_s + tiny.costs.copy_s));
}

TEST_F(DoctorTest, SharedLockLimitsMeasuredRateOfAllWorkers) {
  constexpr double kLockedS = 0.01;
  SlowOp locked = slow_op(kLockedS);
  locked.lock = std::make_shared<FairLock>();
  const auto one = trainer(with_transform(locked));
  const Observations observed = examine_fully(*one, plan(4), with_budget(kBudgetS)).observed;
  // Without the lock, four workers would produce 400 samples a second, with 10 ms per sample.
  EXPECT_GT(observed.rate_of_all_workers.value, 0);
  EXPECT_LT(observed.rate_of_all_workers.value, kSlack / kLockedS);
  EXPECT_GT(step_named(observed, "slow").wall_of_all_s, 1.5 * kLockedS);
}

TEST_F(DoctorTest, ShortTurnRateEqualsSteadyRateOrHasNoLowerBound) {
  Tiny tiny = with_transform(slow_op(0.005));
  const auto one = trainer(tiny);
  TrainingRate rate(plan(1), std::nullopt);
  rate.measure(*one, 0, {});
  ASSERT_TRUE(rate.is_measured());
  SteadyRate steady;
  if (steady.add(rate.last(), tiny.batch_size)) {
    EXPECT_EQ(rate.rate().value, steady.rate().value);
    EXPECT_EQ(rate.rate().low, steady.rate().low);
    EXPECT_EQ(rate.rate().high, steady.rate().high);
  } else {
    EXPECT_EQ(rate.rate().low, 0) << "all steps may have used prefetched batches";
  }
}

TEST_F(DoctorTest, TurnWithoutTimeRunsFewestSteps) {
  const auto one = trainer({});
  TrainingRate whole(plan(), std::nullopt), cached(serial_plan(), Cut{"copy", 1});
  whole.measure(*one, {1, 0}, {});
  EXPECT_EQ(whole.last().steps, 1U);
  ASSERT_TRUE(whole.is_measured());
  EXPECT_EQ(whole.rate().low, 0) << "it is unknown whether the step waited for its batch";
  cached.measure(*one, {1, 0}, {});
  EXPECT_EQ(cached.last().steps, 2U) << "the first step is a warm-up";
  EXPECT_EQ(cached.rate().n, 1U);
  EXPECT_EQ(cached.rate().low, 0) << "a single step has no spread";
  cached.measure(*one, 0.1, {});
  EXPECT_GE(cached.rate().n, kFewestSteadySteps) << "steady steps replace the first one";
}

TEST_F(DoctorTest, StepsLongerThanTimeLimitDoNotRunAhead) {
  Tiny tiny;
  tiny.costs = {.train_s = 0.1};
  const auto one = trainer(tiny);
  TrainingRate cached(plan(), Cut{"copy", 4}), whole(plan(), std::nullopt);
  double step_s = 0;
  TurnTime time(1, 0.02);
  time.learned = [&step_s](double learned_s) { step_s = learned_s; };
  cached.measure(*one, time, {});
  EXPECT_EQ(cached.last().steps, 2U);
  EXPECT_TRUE(cached.is_measured());
  EXPECT_GE(step_s, 0.99 * tiny.costs.train_s);
  whole.measure(*one, {1, 0.02}, {});
  EXPECT_EQ(whole.last().steps, 1U);
}

TEST_F(DoctorTest, StepTimeIsLearnedOnceBeforeMeasurement) {
  const auto one = trainer({});
  TrainingRate cached(plan(), Cut{"copy", 2});
  int learned = 0;
  TurnTime time(0, 1000);
  time.learned = [&](double step_s) {
    ++learned;
    EXPECT_GT(step_s, 0);
    EXPECT_FALSE(cached.is_measured());
  };
  cached.measure(*one, time, {});
  EXPECT_EQ(learned, 1);
  EXPECT_GE(cached.last().steps, 8U) << "with enough time, more than the minimum of steps run";
  time.step_s = 1e-3;
  cached.measure(*one, time, {});
  EXPECT_EQ(learned, 1) << "a known step time is not measured again";
}

}  // namespace
}  // namespace slipstream::test
