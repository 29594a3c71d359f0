#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/model_parts.h"
#include "doctor/observed.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Change make_change(const std::string& id, Effort effort, double gain) {
  Change change;
  change.id = id;
  change.effort = effort;
  change.gain = {gain, 0.99 * gain, 1.01 * gain, "1", 9};
  change.predicted = {10 * gain, 9.9 * gain, 10.1 * gain, "steps/s", 9};
  return change;
}

std::vector<std::string> ranked(std::vector<Change> changes, Bottleneck verdict,
                                std::vector<Bottleneck> bottlenecks) {
  Diagnosis diagnosis;
  diagnosis.verdict = verdict;
  diagnosis.bottlenecks = std::move(bottlenecks);
  diagnosis.changes = std::move(changes);
  rank_changes(diagnosis);
  std::vector<std::string> ids;
  for (const Change& change : diagnosis.changes) ids.push_back(change.id);
  return ids;
}

std::vector<std::string> ranked(std::vector<Change> changes) {
  return ranked(std::move(changes), Bottleneck::transforms, {Bottleneck::transforms});
}

TEST(RankChanges, LeastEffortIsFirstAndWithinAnEffortLargestGain) {
  EXPECT_THAT(
      ranked({make_change("convert", Effort::data, 2.4), make_change("rewrite", Effort::code, 2.2),
              make_change("prefetch", Effort::option, 1.7),
              make_change("workers", Effort::option, 1.9)}),
      ElementsAre("workers", "prefetch", "rewrite", "convert"));
}

TEST(RankChanges, SmallGainOfAnOptionDoesNotHideLargeGainOfCode) {
  EXPECT_THAT(
      ranked({make_change("workers", Effort::option, 1.1), make_change("rewrite", Effort::code, 3),
              make_change("convert", Effort::data, 1.4), make_change("move", Effort::code, 1.3)}),
      ElementsAre("rewrite", "move", "convert", "workers"))
      << "a tenth is less than half of what the others gain";
}

TEST(RankChanges, OptionThatDoublesTheRateIsFirst) {
  EXPECT_THAT(
      ranked({make_change("convert", Effort::data, 90), make_change("workers", Effort::option, 2)}),
      ElementsAre("workers", "convert"));
}

TEST(RankChanges, HardwareIsLastAndOmittedIfAnotherChangeIsAboutAsFast) {
  const Change cores = make_change("cores", Effort::hardware, 30);
  EXPECT_THAT(ranked({cores, make_change("workers", Effort::option, 1.2)}),
              ElementsAre("workers", "cores"));
  EXPECT_THAT(ranked({cores, make_change("workers", Effort::option, 28.6)}),
              ElementsAre("workers"));
}

TEST(RankChanges, UpperBoundOfAnotherChangeDoesNotOmitHardware) {
  Change cheaper = make_change("cheaper", Effort::code, 30);
  cheaper.is_upper_bound = true;
  const std::vector<Change> changes = {cheaper, make_change("cores", Effort::hardware, 30)};
  EXPECT_THAT(ranked(changes), ElementsAre("cheaper", "cores"));
  Change measured = cheaper;
  measured.measured = measured.predicted;
  measured.measured_gain = measured.gain;
  EXPECT_THAT(ranked({measured, changes.back()}), ElementsAre("cheaper"));
}

TEST(RankChanges, GainsBelowFivePercentAreRemoved) {
  EXPECT_THAT(ranked({make_change("workers", Effort::option, 1.049)}), IsEmpty());
  EXPECT_THAT(ranked({make_change("workers", Effort::option, 1.051)}), ElementsAre("workers"));
}

TEST(RankChanges, WithoutEvidenceThereIsNoChange) {
  const std::vector<Change> changes = {make_change("workers", Effort::option, 2)};
  EXPECT_THAT(ranked(changes, Bottleneck::not_enough_evidence, {}), IsEmpty());
  for (const Bottleneck fed : {Bottleneck::device, Bottleneck::none, Bottleneck::launch_overhead})
    EXPECT_THAT(ranked(changes, fed, {}), IsEmpty()) << to_string(fed);
}

TEST(RankChanges, ChangesOfTheDevicesWorkRemainIfInputKeepsUp) {
  Change stored = make_change("feature_cache", Effort::data, 2);
  stored.bottleneck = Bottleneck::device;
  EXPECT_THAT(ranked({stored, make_change("workers", Effort::option, 2)}, Bottleneck::device, {}),
              ElementsAre("feature_cache"));
}

TEST(RankChanges, AssumedCostsAreKeptAtTheEnd) {
  const Change assumed = make_change("what_if", Effort::option, 0.9);
  EXPECT_THAT(ranked({assumed, make_change("rewrite", Effort::code, 2)}),
              ElementsAre("rewrite", "what_if"));
  EXPECT_THAT(ranked({assumed}, Bottleneck::device, {}), ElementsAre("what_if"));
}

TEST(RankChanges, EffortNamesRoundTripAndUnknownNamesAreRefused) {
  for (const char* name : {"option", "code", "data", "hardware"})
    EXPECT_EQ(to_string(effort_named(name)), name);
  EXPECT_THROW(effort_named("money"), Refused);
}

TEST(RankChanges, SamplesThatOnlyWaitProposeWorkersAndNoCores) {
  PipelineModel model = usual_model();
  model.capacity = {2, 2};
  model.line_waiting_s = 1e-4;
  model.slabs_per_worker = 2;
  for (PipelineModel::Step& step : model.steps) make_free(step);
  model.steps[0] = make_step("read", Bottleneck::read, 20e-3, 2e-5);
  Observations observed = make_observations(model);
  observed.slabs_per_worker = 2;
  observed.situation.cores = 2;
  observed.situation.last_fixed_step = "";
  const Diagnosis diagnosis = diagnose(observed);
  ASSERT_GT(*diagnosis.cores_needed, 2) << "the ceiling is high";
  EXPECT_EQ(find(diagnosis, "cores"), nullptr);
  ASSERT_FALSE(diagnosis.changes.empty());
  EXPECT_EQ(diagnosis.changes.front().effort, Effort::option) << diagnosis.changes.front().id;
  EXPECT_NE(find(diagnosis, "num_workers"), nullptr);
}

TEST(RankChanges, TransformsThatComputeProposeCodeBeforeCores) {
  PipelineModel model = usual_model();
  model.capacity = {2, 2};
  model.workers = 2;
  model.line_waiting_s = 1e-3;
  model.steps[3] = make_step("blur", Bottleneck::transforms, 0, 20e-3);
  Observations observed = make_observations(model);
  observed.situation.cores = 2;
  observed.situation.last_fixed_step = "";
  const Diagnosis diagnosis = diagnose(observed);
  ASSERT_FALSE(diagnosis.changes.empty());
  EXPECT_EQ(diagnosis.changes.front().id, "cheaper_transform");
  EXPECT_EQ(diagnosis.changes.back().id, "cores");
}

}  // namespace
}  // namespace slipstream
