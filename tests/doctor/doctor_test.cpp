#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>

#include "core/patience.h"
#include "doctor/doctor_fixture.h"
#include "support/made_set.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(DoctorTest, BudgetForFewStepsIsRefusedAndKeepsState) {
  Tiny tiny;
  tiny.costs = {.train_s = 0.5};
  const auto one = trainer(tiny);
  const std::uint64_t digest = one->digest();
  EXPECT_THAT(
      thrown_by([&] { examine(*one, plan(), with_budget(1.3)); }),
      AllOf(StartsWith("Refused: a budget of 1.3 s is too small"), HasSubstr("give a budget of ")));
  EXPECT_EQ(one->digest(), digest);
  EXPECT_EQ(one->position(), 0U);
}

/// With a cache in the plan, the loader alone is measured for any budget.
TEST_F(DoctorTest, PyTorchErrorIsReportedWithoutBacktrace) {
  const auto one = trainer({});
  Plan cached = plan();
  cached.schedule.loader.cache = CacheOptions{"read", 1 << 20};
  DoctorOptions options = with_budget(kBudgetS);
  bool is_reached = false, has_thrown = false;
  options.log_line = [&](const std::string& line) {
    is_reached |= line == "nothing cached, loader alone";
  };
  options.stop = [&] {
    TORCH_CHECK(!is_reached || std::exchange(has_thrown, true), "asked in vain");
    return has_thrown;
  };
  const Observations observed = examine_fully(*one, cached, options).observed;
  ASSERT_TRUE(has_thrown);
  EXPECT_EQ(level_named(observed, "nothing cached").loader_alone_error, "asked in vain");
}

TEST_F(DoctorTest, BudgetForFewBatchesIsRefusedBeforeFirstLevel) {
  const auto one = trainer(with_transform(slow_op(0.1)));
  std::vector<std::string> lines;
  DoctorOptions options = with_budget(0.2);
  options.log_line = [&lines](const std::string& line) { lines.push_back(line); };
  EXPECT_THAT(thrown_by([&] { examine(*one, plan(1), options); }),
              HasSubstr("a budget of 0.2 s is too small"));
  EXPECT_THAT(lines, testing::Not(Contains("device batch, with training")));
}

/// Measurements for which a busy machine left no time are omitted, and warnings name them.
TEST_F(DoctorTest, ReportsEveryLevelHostStepAndDeviceStep) {
  const auto one = trainer(with_transform(slow_op(0.001)));
  const Examination found = examine_fully(*one, plan(), with_budget(2));
  const auto is_named = [&](const std::string& step) {
    const std::string missing =
        "not measured: " + step + " alone: the time for measuring was used up";
    return std::any_of(
        found.observed.warnings.begin(), found.observed.warnings.end(),
        [&](const std::string& warning) { return warning.find(missing) != std::string::npos; });
  };
  std::vector<std::string> levels, host, device;
  for (const Level& level : found.observed.levels) {
    levels.push_back(level.name);
    if (!level.with_training) {
      EXPECT_THAT(level.error, HasSubstr("the time for measuring was used up")) << level.name;
    }
  }
  for (const HostStepCost& step : found.observed.host) {
    host.push_back(step.name);
    EXPECT_FALSE(step.wall_s.empty()) << step.name;
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
  EXPECT_TRUE(found.observed.levels.front().with_training);
  EXPECT_TRUE(found.observed.levels.back().with_training);
  EXPECT_EQ(host, (std::vector<std::string>{"read", "decode", "slow", "collate"}));
  EXPECT_EQ(step_named(found.observed, "read").group, Bottleneck::read);
  EXPECT_EQ(step_named(found.observed, "decode").group, Bottleneck::decode);
  EXPECT_EQ(step_named(found.observed, "slow").group, Bottleneck::transforms);
  std::vector<std::string> steps = {"copy", "encode", "train"};
  std::erase_if(steps, is_named);
  EXPECT_EQ(device, steps);
  EXPECT_EQ(found.lanes.size(), 3U);
  EXPECT_FALSE(found.interrupted);
}

TEST_F(DoctorTest, SmallerMaskFormatIsProposedOnlyOnGpu) {
  Tiny tiny;
  tiny.size = 64;  // for smaller images, a format saves less than the alignment of fields adds
  const auto one = trainer(tiny);
  const std::vector<WireChoice> wires =
      examine_fully(*one, plan(), with_budget(1)).observed.situation.wires;
  const auto mask = std::find_if(wires.begin(), wires.end(),
                                 [](const WireChoice& choice) { return choice.field == "label"; });
  if (on_gpu()) {
    ASSERT_NE(mask, wires.end());
    EXPECT_EQ(mask->wire, Wire::bits) << "smallest format for 5 classes";
    EXPECT_GT(mask->less, 0);
    EXPECT_LT(mask->less, 0.5);
  } else {
    EXPECT_TRUE(wires.empty()) << "a copy on the host costs next to nothing";
  }
}

TEST_F(DoctorTest, TrainingAfterExaminationIsBitIdentical) {
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
  examine_fully(*one, plan(), with_budget(kBudgetS));
  EXPECT_TRUE(at::randn({4}).equal(drawn)) << "PyTorch's generator is restored";
  EXPECT_EQ(one->digest(), digest);
  EXPECT_EQ(one->position(), 5U);
  EXPECT_EQ(one->run(serial_plan(), steps(7)).digest, expected);
}

TEST_F(DoctorTest, InterruptReturnsPartialExamination) {
  const auto one = trainer({});
  const std::uint64_t digest = one->digest();
  for (const std::string last : {"one worker alone", "device batch, with training"}) {
    std::string said;
    int asked = 0;
    DoctorOptions options = with_budget(kBudgetS);
    options.log_line = [&said](const std::string& line) { said = line; };
    options.stop = [&] { return said == last && ++asked > 2; };
    const Examination found = examine_fully(*one, plan(), options);
    EXPECT_TRUE(found.interrupted) << last;
    EXPECT_EQ(said, last) << "no further measurement starts";
    EXPECT_EQ(diagnose(found.observed).verdict, Bottleneck::not_enough_evidence);
    EXPECT_EQ(one->digest(), digest);
  }
  DoctorOptions options = with_budget(kBudgetS);
  options.stop = [] { return true; };
  EXPECT_TRUE(examine_fully(*one, plan(), options).interrupted);
}

TEST_F(DoctorTest, FailingStageOrZeroBudgetThrowsAndKeepsState) {
  Tiny tiny;
  tiny.extra = {{"broken", [](Batch&) { throw Error("this stage is broken"); }}};
  const auto one = trainer(tiny);
  const std::uint64_t digest = one->digest();
  const Plan broken = build_plan({{"copy"}, {"encode", "broken"}, {"train"}}, Driver::threaded, 3);
  EXPECT_THAT(thrown_by([&] { examine(*one, broken, with_budget(1)); }),
              HasSubstr("this stage is broken"));
  EXPECT_EQ(one->digest(), digest);
  EXPECT_EQ(one->position(), 0U);
  EXPECT_THAT(thrown_by([&] { examine(*one, broken, with_budget(0)); }),
              AllOf(StartsWith("Refused"), HasSubstr("budget")));
}

TEST_F(DoctorTest, StageThatWritesIntoItsInputGivesWarning) {
  Tiny tiny;
  tiny.extra = {{"spoil", [](Batch& batch) { batch.at("image").zero_(); }}};
  const auto one = trainer(tiny);
  const Plan spoiling = build_plan({{"copy"}, {"encode", "spoil"}, {"train"}}, Driver::threaded, 3);
  EXPECT_THAT(examine_fully(*one, spoiling, with_budget(1)).observed.warnings,
              Contains(HasSubstr("writes into its input (image)")));
}

TEST_F(DoctorTest, DivergingTrainingIsMeasuredWithWarning) {
  Tiny tiny;
  tiny.loss = [](const at::Tensor& out, const Batch&) { return out.mean() * NAN; };
  const auto one = trainer(tiny);
  const std::uint64_t digest = one->digest();
  const Observations observed = examine_fully(*one, plan(), with_budget(kBudgetS)).observed;
  EXPECT_THAT(observed.warnings, Contains(HasSubstr("training diverges")));
  EXPECT_TRUE(level_named(observed, "device batch").with_training);
  EXPECT_TRUE(level_named(observed, "nothing cached").with_training);
  EXPECT_EQ(one->digest(), digest);
}

/// Counts the threads that read at the same time. If more than two are expected, two threads wait
/// for a third.
class ConcurrentReaders {
 public:
  std::shared_ptr<const Dataset> wrap(std::shared_ptr<const Dataset> inner) {
    return set_around(std::move(inner), [this](std::size_t) {
      const int now = ++reading_;
      for (int most = most_; now > most && !most_.compare_exchange_weak(most, now);) continue;
      if (now > 2) third_.add();
      if (waits_for_third_) third_.await(1, "a third thread that reads");
      --reading_;
    });
  }
  /// Restarts the count.
  void expect_more_than_two(bool expected) {
    most_ = 0;
    waits_for_third_ = expected;
  }
  int most() const { return most_; }

 private:
  std::atomic<int> reading_ = 0, most_ = 0;
  std::atomic<bool> waits_for_third_ = false;
  Counter third_;
};

TEST_F(DoctorTest, TryOutMeasuresOriginalAndChangedPlan) {
  constexpr double kTrainS = 0.002;
  ConcurrentReaders readers;
  Tiny tiny;
  tiny.costs = {.train_s = kTrainS};
  tiny.dataset = readers.wrap(make_samples(tiny));
  const auto one = trainer(tiny);
  const std::uint64_t digest = one->digest();
  Diagnosis diagnosis;
  diagnosis.rate = diagnosis.ceiling = {100, 99, 101, "steps/s", 16};
  diagnosis.changes.resize(2);
  diagnosis.changes[0].id = "num_workers";
  diagnosis.changes[1].id = "read_ahead";
  diagnosis.changes[1].description = "read ahead";
  const Remedy remedy{plan(4), {"num_workers"}, {150, 140, 160, "steps/s", 16}};
  std::vector<std::string> said;
  DoctorOptions options = with_budget(kBudgetS);
  options.log_line = [&](const std::string& line) {
    if (said.size() == 1) {
      EXPECT_LE(readers.most(), 2) << "the original plan has two workers";
    }
    said.push_back(line);
    readers.expect_more_than_two(line == "the changed plan");
  };
  const Outcome outcome = try_out(*one, plan(2), remedy, diagnosis, options);
  ASSERT_GE(said.size(), 2U);
  EXPECT_EQ(said[0], "the plan as it was");
  EXPECT_EQ(said[1], "the changed plan");
  EXPECT_GT(outcome.before.value, 0);
  EXPECT_LT(outcome.before.low, kSlack / kTrainS);
  EXPECT_GT(outcome.measured.value, 0);
  EXPECT_LT(outcome.measured.low, kSlack / kTrainS);
  EXPECT_EQ(outcome.predicted.value, remedy.predicted.value);
  EXPECT_EQ(outcome.changes, std::vector<std::string>{"use 4 workers"});
  EXPECT_EQ(outcome.plan, remedy.plan);
  EXPECT_EQ(one->digest(), digest);
  EXPECT_EQ(one->position(), 0U);
}

}  // namespace
}  // namespace slipstream::test
