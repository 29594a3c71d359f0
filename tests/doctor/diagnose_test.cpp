#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/model_parts.h"
#include "doctor/observed.h"

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void scale_by(Measured& rate, double by) {
  rate = {by * rate.value, by * rate.low, by * rate.high, rate.unit, rate.n};
}

TEST(Diagnose, ArticleModelBlamesTransformsThenReading) {
  const Diagnosis diagnosis = diagnose(make_observations(article_model(), 0.01));
  EXPECT_EQ(diagnosis.verdict, Bottleneck::transforms);
  EXPECT_THAT(diagnosis.bottlenecks, ElementsAre(Bottleneck::transforms, Bottleneck::read));
  EXPECT_NEAR(diagnosis.ceiling.value, 1 / 0.3, 0.02);
  EXPECT_NEAR(diagnosis.rate.value, 0.89, 0.02);
  EXPECT_THAT(diagnosis.reason, HasSubstr("27 %"));
}

TEST(Diagnose, PredictedRateAfterFixMatchesSimulation) {
  PipelineModel before = article_model();
  const Observations observed = make_observations(before, 0.01);
  const PipelineModel now = fitted_model(observed);
  const double error = compute_model_error(observed, now);
  EXPECT_LT(error, 0.03);
  for (const std::string name : {"read", "mask"}) {
    PipelineModel fixed = before, then = now;
    for (PipelineModel* model : {&fixed, &then})
      for (auto& step : model->steps)
        if (step.name == name) step.waiting_s = {0.5e-3F};
    const Measured predicted = predicted_rate(observed, now, then, error);
    const double truth = 1 / simulated_step_s(fixed);
    EXPECT_NEAR(predicted.value / truth, 1, 0.05) << name;
    EXPECT_LE(predicted.low, truth);
    EXPECT_GE(predicted.high, truth);
  }
}

TEST(Diagnose, FittedLineIncludesBatchHandover) {
  Observations observed = make_observations(article_model(), 0.01);
  ASSERT_EQ(observed.levels[1].name, kHostLevel);
  observed.levels[1].with_training->value = 1 / 0.30;
  const PipelineModel model = fitted_model(observed);
  EXPECT_NEAR(model.line_waiting_s + model.line_working_s, 0.31, 2e-3);
}

TEST(Diagnose, PartOfCollatingIsNotAddedToTheLine) {
  PipelineModel model = usual_model();
  model.workers = 1;
  model.slabs = 1;
  model.steps.insert(model.steps.end() - 1, make_step("pad", Bottleneck::part, 0, 9e-3));
  Observations observed = make_observations(model);
  observed.workers = 0;
  for (Level& level : observed.levels)
    if (level.name == kProcessedLevel) {
      level.after = "blur";
      level.with_training->value = 1 / (0.1 + 32 * 9.01e-3);
    }
  const PipelineModel fitted = fitted_model(observed);
  EXPECT_NEAR(fitted.line_waiting_s + fitted.line_working_s, 0.1, 5e-3);
}

TEST(Diagnose, TimeBetweenStepsIsAddedToLastStep) {
  PipelineModel model = usual_model();
  Observations observed = make_observations(model);
  model.steps.back().working_s = {1e-3F};
  const Observations slower = make_observations(model);
  observed.rate_of_one_worker = slower.rate_of_one_worker;
  observed.rate_of_all_workers = slower.rate_of_all_workers;
  PipelineModel fitted = fitted_model(observed);
  EXPECT_NEAR(fitted.steps.back().working_s.front(), 1e-3, 2e-5);
  EXPECT_NEAR(fitted.steps.front().working_s.front(), 1e-3, 2e-5);
}

TEST(Diagnose, FastInputGivesDeviceVerdictWithoutChanges) {
  const Diagnosis diagnosis = diagnose(make_observations(usual_model()));
  EXPECT_EQ(diagnosis.verdict, Bottleneck::device);
  EXPECT_TRUE(diagnosis.bottlenecks.empty());
  EXPECT_TRUE(diagnosis.changes.empty());
}

struct Case {
  std::string step;
  Bottleneck expected;
};

class OneSlowStep : public testing::TestWithParam<Case> {};

TEST_P(OneSlowStep, IsReportedAsVerdict) {
  PipelineModel model = usual_model();
  for (auto& step : model.steps)
    if (step.name == GetParam().step) step.working_s = {50e-3F};
  const Diagnosis diagnosis = diagnose(make_observations(model));
  EXPECT_EQ(diagnosis.verdict, GetParam().expected) << diagnosis.reason;
}

INSTANTIATE_TEST_SUITE_P(All, OneSlowStep,
                         testing::Values(Case{"read", Bottleneck::read},
                                         Case{"decode", Bottleneck::decode},
                                         Case{"blur", Bottleneck::transforms},
                                         Case{"collate", Bottleneck::collate}),
                         [](const auto& tested) { return tested.param.step; });

TEST(Diagnose, NamedPartIsVerdictWithItsNameAndEachPartIsJudgedAlone) {
  PipelineModel model = usual_model();
  model.steps.insert(model.steps.begin() + 1, make_step("tokenize", Bottleneck::part, 0, 30e-3));
  model.steps.insert(model.steps.begin() + 2, make_step("mix", Bottleneck::part, 0, 15e-3));
  const Diagnosis diagnosis = diagnose(make_observations(model));
  EXPECT_EQ(diagnosis.verdict, Bottleneck::part) << diagnosis.reason;
  EXPECT_EQ(verdict_name(diagnosis), "tokenize");
  EXPECT_THAT(bottleneck_names(diagnosis), ElementsAre("tokenize", "mix", "transforms"));
  EXPECT_THAT(diagnosis.reason, HasSubstr("bottleneck: 'tokenize', then 'mix'"));
  const Change* change = find(diagnosis, "cheaper_part");
  ASSERT_NE(change, nullptr);
  EXPECT_THAT(change->description, HasSubstr("make 'tokenize' cheaper"));
}

TEST(Diagnose, NamesOfPartsSelectGroups) {
  EXPECT_EQ(part_group("decode"), Bottleneck::decode);
  EXPECT_EQ(part_group("collate"), Bottleneck::collate);
  EXPECT_EQ(part_group("copy"), Bottleneck::part);
  EXPECT_EQ(host_step_group(1, 3), Bottleneck::decode);
  EXPECT_EQ(host_step_group(2, 3), Bottleneck::collate);
}

TEST(Diagnose, SlowCopyGivesCopyVerdict) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0.2;
  const Diagnosis diagnosis = diagnose(make_observations(model, 0.1));
  EXPECT_EQ(diagnosis.verdict, Bottleneck::copy) << diagnosis.reason;
}

TEST(Diagnose, LockedStepGivesLockVerdictAndRateWithoutLock) {
  PipelineModel model = usual_model();
  model.workers = 8;
  model.steps[1] = make_step("decode", Bottleneck::decode, 8e-3, 0);
  model.steps[1].locked = 1;
  const Diagnosis diagnosis = diagnose(make_observations(model));
  EXPECT_EQ(diagnosis.verdict, Bottleneck::lock_contention) << diagnosis.reason;
  const Change* change = find(diagnosis, "lock_contention");
  ASSERT_NE(change, nullptr);
  model.steps[1].locked = 0;
  EXPECT_NEAR(change->predicted.value * simulated_step_s(model), 1, 0.05);
}

/// Returns observations of 8 workers that wait for each other in decoding.
Observations observe_lock() {
  PipelineModel model = usual_model();
  model.workers = 8;
  model.steps[1] = make_step("decode", Bottleneck::decode, 8e-3, 0);
  model.steps[1].locked = 1;
  return make_observations(model);
}

TEST(Diagnose, LockNeedsLongerWaitingThanTheIntervalOfWaitingTimes) {
  Observations observed = observe_lock();
  ASSERT_EQ(diagnose(observed).verdict, Bottleneck::lock_contention);
  std::vector<float>& waiting_s = observed.host[1].waiting_of_all_s;
  // The same mean, but almost all of it is in four of 64 samples.
  const float all = 60 * waiting_s.front();
  for (std::size_t i = 0; i < waiting_s.size(); ++i) waiting_s[i] = i < 4 ? all / 4 : 0.0F;
  const Diagnosis diagnosis = diagnose(observed);
  EXPECT_NE(diagnosis.verdict, Bottleneck::lock_contention) << diagnosis.reason;
  waiting_s.clear();
  EXPECT_NE(diagnose(observed).verdict, Bottleneck::lock_contention) << "nothing was measured";
}

TEST(Diagnose, WorkersThatKeepTheCoresBusyAreNotReportedAsLocked) {
  PipelineModel model = usual_model();
  model.workers = 8;
  model.line_waiting_s = 0.001;
  model.steps = {make_step("data set", Bottleneck::read, 0, 20e-3),
                 make_step("collate", Bottleneck::transforms, 0, 1e-6)};
  Observations observed = make_observations(model);
  const auto slow_down = [&](double by) {
    for (HostStepCost& cost : observed.host) {
      cost.wall_of_all_s *= by;
      const auto waiting_s = static_cast<float>(cost.wall_of_all_s - cost.cpu_of_all_s);
      cost.waiting_of_all_s.assign(64, waiting_s);
    }
    scale_by(observed.rate_of_all_workers, 1 / by);
    for (std::size_t i = 2; i < observed.levels.size(); ++i)
      scale_by(*observed.levels[i].with_training, 1 / by);
  };
  const auto locked = [&] { return diagnose(observed).costs.front().locked; };
  slow_down(1.15);
  EXPECT_EQ(locked(), 0);
  slow_down(1.25);
  ASSERT_GT(locked(), 0) << "a third of the cores is idle";
  observed.situation.has_worker_processes = true;
  EXPECT_EQ(locked(), 0) << "another program may use the cores";
}

TEST(Diagnose, LevelsThatCostsDoNotExplainLeaveTheVerdictIfTheWholeIsExplained) {
  Observations observed = make_observations(article_model(), 0.01);
  for (Level& level : observed.levels)
    if (level.after == "read" || level.after == "decode")
      scale_by(*level.with_training, 3.1 / level.with_training->value);
    else if (level.after == "crop" || level.after == "mask")
      scale_by(*level.with_training, 3.15 / level.with_training->value);
  const Diagnosis diagnosis = diagnose(observed);
  ASSERT_GT(diagnosis.model_error, 0.3);
  EXPECT_EQ(diagnosis.verdict, Bottleneck::transforms) << diagnosis.reason;
}

TEST(Diagnose, WholeIsUnexplainedOnlyIfItsIntervalExcludesTheExplainedRate) {
  Observations observed = make_observations(article_model(), 0.01);
  Measured& rate = *observed.levels.back().with_training;
  scale_by(rate, 0.2);
  Diagnosis diagnosis = diagnose(observed);
  EXPECT_EQ(diagnosis.verdict, Bottleneck::not_enough_evidence);
  EXPECT_THAT(diagnosis.reason, HasSubstr("do not explain"));
  rate.high = 5 * rate.value;
  diagnosis = diagnose(observed);
  EXPECT_EQ(diagnosis.verdict, Bottleneck::transforms) << diagnosis.reason;
}

/// If one worker gets the lock several times in a row, many batches are ready at once, and then
/// none: the interval is wide.
TEST(Diagnose, LevelWithVeryWideIntervalIsIgnored) {
  PipelineModel model = usual_model();
  model.workers = 3;
  model.steps[1] = make_step("decode", Bottleneck::decode, 8e-3, 0);
  model.steps[1].locked = 1;
  Observations observed = make_observations(model);
  for (Level& level : observed.levels)
    if (level.after == "read")
      level.with_training = {2.5 * level.with_training->value, 0, 5 * level.with_training->value,
                             "steps/s", 4};
  const Diagnosis diagnosis = diagnose(observed);
  EXPECT_EQ(diagnosis.verdict, Bottleneck::lock_contention) << diagnosis.reason;
  EXPECT_LT(diagnosis.model_error, 0.05);
}

TEST(Diagnose, MemoryBoundStepGivesMemoryBandwidthVerdict) {
  PipelineModel model = usual_model();
  model.workers = 8;
  model.capacity = {8, 1.5};
  model.steps[3] = make_step("blur", Bottleneck::transforms, 0, 8e-3);
  model.steps[3].is_memory_bound = true;
  const Diagnosis diagnosis = diagnose(make_observations(model));
  EXPECT_EQ(diagnosis.verdict, Bottleneck::memory_bandwidth) << diagnosis.reason;
}

TEST(Diagnose, EquallySlowDecodeAndCopyAreBothBottlenecks) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0.4;
  model.steps[1] = make_step("decode", Bottleneck::decode, 0, 47e-3);
  const Diagnosis diagnosis = diagnose(make_observations(model, 0.3));
  EXPECT_THAT(diagnosis.bottlenecks,
              testing::UnorderedElementsAre(Bottleneck::decode, Bottleneck::copy));
}

TEST(Diagnose, UniformSlowdownOfAllWorkersIsNotReportedAsLock) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0.001;
  model.steps[3].working_s = {3e-3F};
  Observations observed = make_observations(model);
  for (HostStepCost& cost : observed.host) {
    cost.cpu_of_all_s *= 1.4;
    cost.wall_of_all_s *= 1.4;
  }
  std::vector<Measured*> slower = {&observed.rate_of_all_workers};
  for (std::size_t i = 2; i < observed.levels.size(); ++i)
    slower.push_back(&*observed.levels[i].with_training);
  for (Measured* rate : slower)
    *rate = {rate->value / 1.4, rate->low / 1.4, rate->high / 1.4, rate->unit, rate->n};
  const Diagnosis diagnosis = diagnose(observed);
  EXPECT_EQ(diagnosis.verdict, Bottleneck::transforms) << diagnosis.reason;
  for (const CostRow& row : diagnosis.costs) {
    EXPECT_EQ(row.locked, 0) << row.name;
    EXPECT_FALSE(row.is_memory_bound) << row.name;
  }
}

TEST(Diagnose, WidePipelineIntervalGivesNotEnoughEvidence) {
  Observations observed = make_observations(article_model(), 0.01);
  Measured& rate = *observed.levels.back().with_training;
  rate.low = 0.1 * rate.value;
  rate.high = 5 * rate.value;
  const Diagnosis diagnosis = diagnose(observed);
  EXPECT_EQ(diagnosis.verdict, Bottleneck::not_enough_evidence);
  EXPECT_THAT(diagnosis.reason, HasSubstr("--budget"));
}

TEST(Diagnose, WideCeilingIntervalStillGivesTransformsVerdict) {
  Observations observed = make_observations(article_model(), 0.01);
  Measured& ceiling = *observed.levels.front().with_training;
  ceiling.low = 0.7 * ceiling.value;
  ceiling.high = 1.3 * ceiling.value;
  EXPECT_EQ(diagnose(observed).verdict, Bottleneck::transforms);
}

TEST(Diagnose, FailedCeilingLevelGivesNotEnoughEvidence) {
  Observations observed = make_observations(article_model(), 0.01);
  observed.levels.front().with_training.reset();
  observed.levels.front().error = "no";
  const Diagnosis diagnosis = diagnose(observed);
  EXPECT_EQ(diagnosis.verdict, Bottleneck::not_enough_evidence);
  EXPECT_EQ(diagnosis.costs.size(), 6U);
}

TEST(Diagnose, EnqueueTimeAndSmActivityDecideLaunchNoneOrDeviceVerdict) {
  Observations observed = make_observations(usual_model());
  observed.situation.on_gpu = true;
  observed.levels[1].name = kPageableLevel;
  observed.situation.plan.schedule.loader.pin_memory = false;
  observed.device = {{"train", {0.1, 0.1, 0.1, "s", 9}, 0.095, 0}};
  EXPECT_EQ(diagnose(observed).verdict, Bottleneck::launch_overhead);
  observed.device[0].enqueue_s = 0.01;
  observed.utilization.sm_activity = 0.2;
  EXPECT_EQ(diagnose(observed).verdict, Bottleneck::none);
  observed.utilization.sm_activity = 0.9;
  EXPECT_EQ(diagnose(observed).verdict, Bottleneck::device);
}

TEST(Diagnose, CoresChangeProposesTheCoresNeeded) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0.002;
  model.line_working_s = 0.001;
  Observations observed = make_observations(model);
  observed.line_cpu_s = 1;  // more than a step takes: its lane's threads were busy with other work
  const Diagnosis diagnosis = diagnose(observed);
  // A batch has 32 samples of 4.01 ms, and its lanes use at most 3 ms of one core.
  const double cores = (32 * 4.01e-3 + 3e-3) / 3e-3;
  ASSERT_TRUE(diagnosis.cores_needed);
  EXPECT_NEAR(*diagnosis.cores_needed, cores, 0.05 * cores);
  const Change* change = find(diagnosis, "cores");
  ASSERT_NE(change, nullptr);
  const auto given = static_cast<unsigned>(std::ceil(*diagnosis.cores_needed));
  EXPECT_THAT(change->description, HasSubstr("give this device " + std::to_string(given)));
}

TEST(Diagnose, TiedBottlenecksAreOrderedByCost) {
  PipelineModel model = usual_model();
  model.workers = 1;
  model.steps[0].working_s = {0.1e-3F};
  model.steps[1].working_s = {3e-3F};
  model.steps[2].working_s = {1e-3F};
  model.steps[3].working_s = {0.3e-3F};
  // A batch costs a worker 140.8 ms, the lanes 110 ms. Without decoding, or without the transforms,
  // the lanes are the bottleneck.
  model.line_waiting_s = 0.11;
  Observations observed = make_observations(model);
  for (const double by : {0.99, 1.0, 1.01}) {
    Measured& drained = observed.rate_of_all_workers;
    drained = {by * drained.value, by * drained.low, by * drained.high, drained.unit, drained.n};
    const Diagnosis diagnosis = diagnose(observed);
    EXPECT_THAT(diagnosis.bottlenecks, ElementsAre(Bottleneck::decode, Bottleneck::transforms));
  }
}

TEST(Diagnose, CoresNeededIncludeTrainingOnlyIfItCompetesWithWorkers) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0;
  model.line_working_s = 0.14;
  // 32 samples of 4.01 ms need 0.917 cores at the ceiling; training needs one more if it competes
  // for cores.
  EXPECT_NEAR(cores_needed(model, 1 / 0.14, 2), 0.917, 1e-3);
  EXPECT_NEAR(cores_needed(model, 1 / 0.14, 1), 1.917, 1e-3);
  model.batch_size = 64;
  EXPECT_NEAR(cores_needed(model, 1 / 0.14, 2), 2.833, 1e-3);
  EXPECT_NEAR(cores_needed(model, 1 / 0.14, 3), 1.833, 1e-3);
}

TEST(Diagnose, CeilingBelowOtherLevelsGivesNotEnoughEvidence) {
  Observations observed = make_observations(usual_model());
  scale_by(*observed.levels.front().with_training, 0.85);
  const Diagnosis diagnosis = diagnose(observed);
  EXPECT_EQ(diagnosis.verdict, Bottleneck::not_enough_evidence);
  EXPECT_THAT(diagnosis.reason, HasSubstr("the machine's speed changed by 18 %"));
  EXPECT_THAT(diagnosis.reason, HasSubstr("'device batch' was slower than"));
  EXPECT_TRUE(diagnosis.bottlenecks.empty());
}

TEST(Diagnose, SlowLevelOfFewCachedSamplesIsNoSpeedChange) {
  PipelineModel model = usual_model();
  model.workers = 1;
  model.steps[3].waiting_s = {0, 0, 0, 0};
  model.steps[3].working_s = {1e-3F, 1e-3F, 1e-3F, 21e-3F};
  Observations observed = make_observations(model);
  const auto level = std::find_if(observed.levels.begin(), observed.levels.end(),
                                  [](const Level& each) { return each.name == "after read"; });
  ASSERT_NE(level, observed.levels.end());
  level->items = 8;
  scale_by(*level->with_training, 0.6);
  EXPECT_THAT(diagnose(observed).reason, Not(HasSubstr("speed changed")));
  level->items = 8000;
  EXPECT_THAT(diagnose(observed).reason, HasSubstr("speed changed"));
}

TEST(Diagnose, SpeedChangeGivesNotEnoughEvidenceInsteadOfLock) {
  PipelineModel model = usual_model();
  model.workers = 8;
  model.steps[1] = make_step("decode", Bottleneck::decode, 8e-3, 0);
  model.steps[1].locked = 1;
  Observations observed = make_observations(model);
  scale_by(*observed.levels.front().with_training, 0.8);
  EXPECT_EQ(diagnose(observed).verdict, Bottleneck::not_enough_evidence);
}

TEST(Diagnose, StarvationLargerThanSpeedChangeGivesTransformsVerdict) {
  Observations observed = make_observations(article_model(), 0.01);
  scale_by(*observed.levels.front().with_training, 0.8);
  const Diagnosis diagnosis = diagnose(observed);
  EXPECT_EQ(diagnosis.verdict, Bottleneck::transforms);
  EXPECT_THAT(diagnosis.reason, HasSubstr("speed changed by"));
}

TEST(Diagnose, WorkersWaitingForCoresAreNotReportedAsLocked) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0.001;
  model.steps[1].working_s = {6e-3F};
  Observations observed = make_observations(model);
  for (HostStepCost& cost : observed.host) cost.wall_of_all_s *= 1.5;
  scale_by(observed.rate_of_all_workers, 1 / 1.5);
  for (std::size_t i = 2; i < observed.levels.size(); ++i)
    scale_by(*observed.levels[i].with_training, 1 / 1.5);
  const Diagnosis diagnosis = diagnose(observed);
  EXPECT_EQ(diagnosis.verdict, Bottleneck::decode) << diagnosis.reason;
  for (const CostRow& row : diagnosis.costs) EXPECT_EQ(row.locked, 0) << row.name;
}

TEST(ShareGate, PassesFailsOrIsUndecidedByShareInterval) {
  Diagnosis diagnosis;
  diagnosis.verdict = Bottleneck::transforms;
  EXPECT_EQ(judge_share(diagnosis, 0.5), ShareGate::undecided);
  diagnosis.share = {0.32, 0.21, 0.50, "share", 9};
  EXPECT_EQ(judge_share(diagnosis, 0.20), ShareGate::passes);
  EXPECT_EQ(judge_share(diagnosis, 0.30), ShareGate::passes);
  EXPECT_EQ(judge_share(diagnosis, 0.36), ShareGate::undecided);
  EXPECT_EQ(judge_share(diagnosis, 0.51), ShareGate::fails);
  diagnosis.verdict = Bottleneck::not_enough_evidence;
  EXPECT_EQ(judge_share(diagnosis, 0.20), ShareGate::passes);
  EXPECT_EQ(judge_share(diagnosis, 0.30), ShareGate::undecided);
  EXPECT_EQ(judge_share(diagnosis, 0.51), ShareGate::fails);
}

}  // namespace
}  // namespace slipstream
