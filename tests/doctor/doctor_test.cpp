#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <utility>

#include "datasets/with_cost.h"
#include "doctor/training_rate.h"
#include "ops/synthetic_cost.h"
#include "run/engine.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/doctor/doctor.h"
#include "slipstream/ops/transforms.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

constexpr double kBudgetS = 4;
constexpr double kMostS = 32;

DoctorOptions within(double budget_s) {
  DoctorOptions options;
  options.budget_s = budget_s;
  return options;
}

std::string told(const Diagnosis& found) {
  std::ostringstream text;
  text << found.reason << "; ceiling " << found.ceiling.low << " to " << found.ceiling.high
       << ", rate " << found.rate.low << " to " << found.rate.high << " of " << found.rate.n
       << ", model error " << found.model_error;
  return text.str();
}

/// A cause is so much larger than everything else that no timing can hide it.
class DoctorTest : public EngineTest {
 protected:
  static Plan plan(unsigned workers = 2) {
    Plan plan = plan_of(kThreeLanes, Driver::threaded, 3);
    plan.schedule.loader.num_workers = workers;
    return plan;
  }

  static Tiny with_transform(const SyntheticCost& cost) {
    Tiny tiny;
    tiny.transforms = {{"slow", with_cost(RandomHorizontalFlip{}, cost)}};
    return tiny;
  }

  static Tiny with_reading(const SyntheticCost& cost) {
    Tiny tiny;
    SyntheticOptions synthetic;
    synthetic.samples = tiny.samples;
    synthetic.size = tiny.size;
    synthetic.classes = tiny.classes;
    tiny.dataset = with_cost(synthetic_segmentation(synthetic), {.read = cost});
    return tiny;
  }

  /// A machine that is busy with something else as well gets more time.
  Diagnosis diagnosis(const Tiny& tiny, const std::vector<Culprit>& expected,
                      unsigned workers = 2) {
    const auto one = trainer(tiny);
    Diagnosis found;
    for (double budget_s = kBudgetS; budget_s <= kMostS; budget_s *= 2) {
      found = diagnose(examine(*one, plan(workers), within(budget_s)).observed);
      if (std::find(expected.begin(), expected.end(), found.verdict) != expected.end())
        return found;
    }
    ADD_FAILURE() << name_of(found.verdict) << ": " << told(found);
    return found;
  }
};

TEST_F(DoctorTest, NamesTransforms) {
  const Diagnosis found = diagnosis(with_transform({.sleep_s = 0.02}), {Culprit::transforms});
  EXPECT_LT(found.share.high, 0.9);
}

TEST_F(DoctorTest, NamesReading) {
  const Diagnosis found = diagnosis(with_reading({.sleep_s = 0.02}), {Culprit::raw_reading});
  bool is_proposed = false;
  for (const Change& change : found.changes) is_proposed |= change.id == "read_ahead";
  EXPECT_TRUE(is_proposed) << "storage that waits asks for reads in flight";
}

TEST_F(DoctorTest, NamesTheCopy) {
  Tiny tiny;
  tiny.costs = {.train_s = 0.01, .copy_s = 0.05};
  diagnosis(tiny, {Culprit::copy});
}

TEST_F(DoctorTest, NamesTheDeviceWhereInputKeepsUp) {
  Tiny tiny;
  tiny.costs = {.train_s = 0.05};
  const Diagnosis found = diagnosis(tiny, {Culprit::gpu, Culprit::none});
  EXPECT_TRUE(found.culprits.empty());
  EXPECT_GT(found.share.value, 0.9);
}

TEST_F(DoctorTest, AShortTurnDoesNotHideWhatTheLoaderLacks) {
  Tiny tiny = with_transform({.sleep_s = 0.02});
  tiny.costs = {.train_s = 0.01};
  const auto one = trainer(tiny);
  const double most = 1 / (0.02 * static_cast<double>(tiny.batch_size));  // of one worker
  TrainingRate rate(plan(1), std::nullopt);
  rate.measure(*one, 0, {});
  EXPECT_LT(rate.rate().low, 1.2 * most) << "of batches that lay ready";
  rate.measure(*one, 1, {});
  EXPECT_LT(rate.rate().value, 1.2 * most);
}

TEST_F(DoctorTest, TheBudgetBindsWhereStepsTakeLonger) {
  const auto one = trainer({});
  TrainingRate whole(plan(), std::nullopt), cached(serial_plan(), Cut{"copy", 1});
  whole.measure(*one, {1, 0}, {});
  EXPECT_EQ(whole.last().steps, 1U);
  ASSERT_TRUE(whole.is_measured());
  EXPECT_EQ(whole.rate().low, 0) << "of a step that may have waited for its batch or not";
  cached.measure(*one, {1, 0}, {});
  EXPECT_EQ(cached.last().steps, 2U) << "the first warms up";
  EXPECT_EQ(cached.rate().n, 1U);
  EXPECT_EQ(cached.rate().low, 0) << "one step alone tells no spread";
  cached.measure(*one, 0.1, {});
  EXPECT_GT(cached.rate().low, 0) << "nothing is kept of the two where there are steady ones";
}

TEST_F(DoctorTest, LanesRunNoStepsAheadUntilOneIsKnownToFit) {
  Tiny tiny;
  tiny.costs = {.train_s = 0.5};
  const auto one = trainer(tiny);
  TrainingRate cached(plan(), Cut{"copy", 4}), whole(plan(), std::nullopt);
  double step_s = 0;
  TurnTime time(1, 0.1);
  time.learned = [&step_s](double learned_s) { step_s = learned_s; };
  cached.measure(*one, time, {});
  EXPECT_EQ(cached.last().steps, 2U);
  EXPECT_TRUE(cached.is_measured());
  EXPECT_GT(step_s, 0.4);
  whole.measure(*one, {1, 0.1}, {});
  EXPECT_EQ(whole.last().steps, 1U);
}

TEST_F(DoctorTest, AStepsTimeIsLearnedBeforeItIsMeasured) {
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
  EXPECT_GE(cached.last().steps, 8U) << "the fewest are not all where there is time";
  time.step_s = 1e-3;
  cached.measure(*one, time, {});
  EXPECT_EQ(learned, 1) << "what is known need not be learned";
}

TEST_F(DoctorTest, TellsThatStepsTakeLongerThanTheBudgetWithTheFirstLevel) {
  Tiny tiny;
  tiny.costs = {.train_s = 0.5};
  const auto one = trainer(tiny);
  std::vector<std::string> told;
  DoctorOptions options = within(1.3);
  options.say = [&told](const std::string& line) { told.push_back(line); };
  examine(*one, plan(), options);
  const auto first_level = std::find(told.begin(), told.end(), "device batch, with training");
  ASSERT_LT(first_level - told.begin() + 1, std::ssize(told));
  EXPECT_THAT(*(first_level + 1),
              AllOf(StartsWith("a step takes about "), HasSubstr("beyond the budget of 1.3 s")));
}

TEST_F(DoctorTest, ErrorsOfPyTorchAreToldWithoutTheirBacktrace) {
  const auto one = trainer({});
  DoctorOptions options = within(16);
  bool is_reached = false, has_thrown = false;
  options.say = [&](const std::string& line) { is_reached |= line == "file bytes, loader alone"; };
  options.stop = [&] {
    TORCH_CHECK(!is_reached || std::exchange(has_thrown, true), "asked in vain");
    return has_thrown;
  };
  std::string error;
  for (const Level& level : examine(*one, plan(), options).observed.levels)
    if (level.name == "file bytes") error = level.loader_alone_error;
  ASSERT_TRUE(has_thrown);
  EXPECT_EQ(error, "asked in vain");
}

TEST_F(DoctorTest, TellsBeforehandThatTheLeastTakesLongerThanTheBudget) {
  Tiny tiny = with_transform({.sleep_s = 0.1});
  const auto one = trainer(tiny);
  std::vector<std::string> told;
  DoctorOptions options = within(0.2);
  options.say = [&told](const std::string& line) { told.push_back(line); };
  const Observations observed = examine(*one, plan(1), options).observed;
  const auto is_told = [](const std::string& line) {
    return line.find("beyond the budget of 0.2 s") != std::string::npos;
  };
  const auto telling = std::find_if(told.begin(), told.end(), is_told);
  ASSERT_NE(telling, told.end());
  const auto first_level = std::find(told.begin(), told.end(), "device batch, with training");
  EXPECT_LT(telling - told.begin(), first_level - told.begin());
  EXPECT_EQ(std::count_if(told.begin(), told.end(), is_told), 1);
  EXPECT_TRUE(observed.levels.front().with_training) << observed.levels.front().error;
  EXPECT_TRUE(observed.levels.back().with_training) << observed.levels.back().error;
  EXPECT_EQ(diagnose(observed).verdict, Culprit::not_enough_evidence);
}

TEST_F(DoctorTest, NamesALock) {
  Tiny tiny = with_transform({.sleep_s = 0.01, .lock = true});
  tiny.costs = {.train_s = 0.02};  // without the lock, 4 workers need 10 ms a batch
  diagnosis(tiny, {Culprit::lock}, 4);
}

TEST_F(DoctorTest, EveryLevelAndStepIsThere) {
  const auto one = trainer(with_transform({.sleep_s = 0.001}));
  const Examination found = examine(*one, plan(), within(4));
  std::vector<std::string> levels, host, device;
  for (const Level& level : found.observed.levels) {
    levels.push_back(level.name);
    EXPECT_TRUE(level.with_training.has_value()) << level.name << ": " << level.error;
  }
  for (const HostStepCost& step : found.observed.host) {
    host.push_back(step.name);
    EXPECT_GT(step.wall_s.size(), 8U) << step.name;
  }
  for (const DeviceCost& step : found.observed.device) device.push_back(step.name);
  const std::vector<std::string> batches =
      on_gpu()
          ? std::vector<std::string>{"device batch", "host batch, pinned", "host batch, pageable"}
          : std::vector<std::string>{"device batch", "host batch"};
  std::vector<std::string> expected = batches;
  expected.insert(expected.end(),
                  {"processed sample", "decoded sample", "file bytes", "nothing cached"});
  EXPECT_EQ(levels, expected);
  EXPECT_EQ(host, (std::vector<std::string>{"read", "decode", "slow", "collate"}));
  EXPECT_EQ(device, (std::vector<std::string>{"copy", "encode", "train"}));
  EXPECT_EQ(found.lanes.size(), 3U);
  EXPECT_FALSE(found.interrupted);
}

TEST_F(DoctorTest, ProposesSmallerFormatsOnAGpu) {
  Tiny tiny;
  tiny.size = 64;  // of smaller ones, a format saves less than fields are aligned to
  const auto one = trainer(tiny);
  const std::vector<WireChoice> wires = examine(*one, plan(), within(1)).observed.situation.wires;
  const auto mask = std::find_if(wires.begin(), wires.end(),
                                 [](const WireChoice& choice) { return choice.field == "label"; });
  if (!on_gpu()) {
    EXPECT_TRUE(wires.empty()) << "a copy on the host costs next to nothing";
    return;
  }
  ASSERT_NE(mask, wires.end());
  EXPECT_EQ(mask->wire, Wire::bits) << "of 5 classes";
  EXPECT_GT(mask->less, 0);
  EXPECT_LT(mask->less, 0.5);
}

TEST_F(DoctorTest, TrainingGoesOnToTheSameBits) {
  Tiny tiny;
  tiny.noisy = true;
  const auto undisturbed = trainer(tiny);
  const std::uint64_t expected = undisturbed->run(serial_plan(), steps(12)).digest;

  const auto one = trainer(tiny);
  one->run(serial_plan(), steps(5));
  const std::uint64_t digest = one->digest();
  at::manual_seed(7);
  const at::Tensor drawn = at::randn({4});
  at::manual_seed(7);
  examine(*one, plan(), within(kBudgetS));
  EXPECT_TRUE(at::randn({4}).equal(drawn)) << "PyTorch's generator is as it was";
  EXPECT_EQ(one->digest(), digest);
  EXPECT_EQ(one->position(), 5U);
  EXPECT_EQ(one->run(serial_plan(), steps(7)).digest, expected);
}

TEST_F(DoctorTest, AnInterruptEndsItWithWhatThereIs) {
  const auto one = trainer({});
  const std::uint64_t digest = one->digest();
  int asked = 0;
  DoctorOptions options = within(60);
  options.stop = [&asked] { return ++asked > 200; };
  const Examination found = examine(*one, plan(), options);
  EXPECT_TRUE(found.interrupted);
  EXPECT_LT(found.seconds, 30);
  EXPECT_EQ(diagnose(found.observed).verdict, Culprit::not_enough_evidence);
  EXPECT_EQ(one->digest(), digest);
  options.stop = [] { return true; };
  EXPECT_TRUE(examine(*one, plan(), options).interrupted);
}

TEST_F(DoctorTest, WhatCannotRunAtAllIsThrownAndNothingChanges) {
  Tiny tiny;
  tiny.extra = {{"broken", [](Batch&) { throw Error("this stage is broken"); }}};
  const auto one = trainer(tiny);
  const std::uint64_t digest = one->digest();
  const Plan broken = plan_of({{"copy"}, {"encode", "broken"}, {"train"}}, Driver::threaded, 3);
  EXPECT_THAT(thrown_by([&] { examine(*one, broken, within(1)); }),
              HasSubstr("this stage is broken"));
  EXPECT_EQ(one->digest(), digest);
  EXPECT_EQ(one->position(), 0U);
  EXPECT_THAT(thrown_by([&] { examine(*one, broken, within(0)); }),
              AllOf(StartsWith("Refused"), HasSubstr("budget")));
}

TEST_F(DoctorTest, AStageThatWritesIntoItsInputIsNamed) {
  Tiny tiny;
  tiny.extra = {{"spoil", [](Batch& batch) { batch.at("image").zero_(); }}};
  const auto one = trainer(tiny);
  const Plan spoiling = plan_of({{"copy"}, {"encode", "spoil"}, {"train"}}, Driver::threaded, 3);
  EXPECT_THAT(examine(*one, spoiling, within(1)).observed.warnings,
              Contains(HasSubstr("writes into its input (image)")));
}

TEST_F(DoctorTest, TrainingThatDivergesIsMeasuredAllTheSame) {
  Tiny tiny = with_transform({.sleep_s = 0.02});
  tiny.loss = [](const at::Tensor& out, const Batch&) { return out.mean() * NAN; };
  const auto one = trainer(tiny);
  const std::uint64_t digest = one->digest();
  const Observations observed = examine(*one, plan(), within(kBudgetS)).observed;
  EXPECT_THAT(observed.warnings, Contains(HasSubstr("training diverges")));
  EXPECT_NE(diagnose(observed).verdict, Culprit::gpu);
  EXPECT_EQ(one->digest(), digest);
}

TEST_F(DoctorTest, WhatIsTriedOutGivesWhatWasPredicted) {
  const auto one = trainer(with_reading({.sleep_s = 0.02}));
  const std::uint64_t digest = one->digest();
  const Examination found = examine(*one, plan(), within(kBudgetS));
  const Diagnosis diagnosis = diagnose(found.observed);
  const Remedy remedy = remedy_of(found.observed, diagnosis);
  ASSERT_FALSE(remedy.changes.empty());
  const Outcome outcome = try_out(*one, plan(), remedy, diagnosis, within(kBudgetS));
  EXPECT_GT(outcome.measured.value, 1.5 * outcome.before.value);
  EXPECT_EQ(outcome.changes.size(), remedy.changes.size());
  EXPECT_EQ(outcome.plan, remedy.plan);
  EXPECT_NE(outcome.plan, plan());
  EXPECT_EQ(one->digest(), digest);
}

}  // namespace
}  // namespace slipstream::test
