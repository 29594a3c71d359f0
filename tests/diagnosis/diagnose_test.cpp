#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diagnosis/model_parts.h"
#include "diagnosis/observed.h"

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Workload W3's stated costs: 4 workers, batches of 256, a step of 290 ms, and 10 ms each for the
/// copy and the hand-over.
PipelineModel article() {
  PipelineModel model;
  model.steps = {step_of("read", Culprit::raw_reading, 8.5e-3, 0),
                 step_of("decode", Culprit::decode, 0, 0),
                 step_of("crop", Culprit::transforms, 2.4e-3, 0),
                 step_of("mask", Culprit::transforms, 4.2e-3, 0),
                 step_of("colour", Culprit::transforms, 2.5e-3, 0),
                 step_of("collate", Culprit::transforms, 0, 1e-6)};
  model.workers = 4;
  model.batch_size = 256;
  model.slabs = 6;
  model.capacity = {2, 2};
  model.line_waiting_s = 0.31;
  return model;
}

const Change* find(const Diagnosis& diagnosis, const std::string& id) {
  for (const Change& change : diagnosis.changes)
    if (change.id == id) return &change;
  return nullptr;
}

TEST(Diagnose, the_articles_culprits_come_in_its_order) {
  const Diagnosis diagnosis = diagnose(observed_of(article(), 0.01));
  EXPECT_EQ(diagnosis.verdict, Culprit::transforms);
  EXPECT_THAT(diagnosis.culprits, ElementsAre(Culprit::transforms, Culprit::raw_reading));
  EXPECT_NEAR(diagnosis.ceiling.value, 1 / 0.3, 0.02);
  EXPECT_NEAR(diagnosis.rate.value, 0.89, 0.02);
  EXPECT_THAT(diagnosis.reason, HasSubstr("27 %"));
}

TEST(Diagnose, a_fix_is_predicted_before_it_is_made) {
  PipelineModel before = article();
  const Observations observed = observed_of(before, 0.01);
  const PipelineModel now = fitted_model(observed);
  const double error = model_error_of(observed, now);
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

TEST(Diagnose, handing_a_batch_over_is_part_of_the_line) {
  Observations observed = observed_of(article(), 0.01);
  ASSERT_EQ(observed.rungs[1].name, kHostRung);
  observed.rungs[1].with_training->value = 1 / 0.30;
  const PipelineModel model = fitted_model(observed);
  EXPECT_NEAR(model.line_waiting_s + model.line_working_s, 0.31, 2e-3);
}

TEST(Diagnose, what_lies_between_the_steps_counts) {
  PipelineModel model = usual_model();
  Observations observed = observed_of(model);
  model.steps.back().working_s = {1e-3F};
  const Observations slower = observed_of(model);
  observed.drained_of_one = slower.drained_of_one;
  observed.drained_of_all = slower.drained_of_all;
  PipelineModel fitted = fitted_model(observed);
  EXPECT_NEAR(fitted.steps.back().working_s.front(), 1e-3, 2e-5);
  EXPECT_NEAR(fitted.steps.front().working_s.front(), 1e-3, 2e-5);
}

TEST(Diagnose, where_input_keeps_up_the_device_is_the_limit) {
  const Diagnosis diagnosis = diagnose(observed_of(usual_model()));
  EXPECT_EQ(diagnosis.verdict, Culprit::gpu);
  EXPECT_TRUE(diagnosis.culprits.empty());
  EXPECT_TRUE(diagnosis.changes.empty());
}

struct Case {
  std::string step;
  Culprit expected;
};

class OneSlowStep : public testing::TestWithParam<Case> {};

TEST_P(OneSlowStep, IsFound) {
  PipelineModel model = usual_model();
  for (auto& step : model.steps)
    if (step.name == GetParam().step) step.working_s = {50e-3F};
  const Diagnosis diagnosis = diagnose(observed_of(model));
  EXPECT_EQ(diagnosis.verdict, GetParam().expected) << diagnosis.reason;
}

INSTANTIATE_TEST_SUITE_P(All, OneSlowStep,
                         testing::Values(Case{"read", Culprit::raw_reading},
                                         Case{"decode", Culprit::decode},
                                         Case{"blur", Culprit::transforms}),
                         [](const auto& tested) { return tested.param.step; });

TEST(Diagnose, a_slow_copy_is_found) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0.2;
  const Diagnosis diagnosis = diagnose(observed_of(model, 0.1));
  EXPECT_EQ(diagnosis.verdict, Culprit::copy) << diagnosis.reason;
}

TEST(Diagnose, a_lock_is_told_from_a_slow_step) {
  PipelineModel model = usual_model();
  model.workers = 8;
  model.steps[1] = step_of("decode", Culprit::decode, 8e-3, 0);
  model.steps[1].locked = 1;
  const Diagnosis diagnosis = diagnose(observed_of(model));
  EXPECT_EQ(diagnosis.verdict, Culprit::lock) << diagnosis.reason;
  const Change* change = find(diagnosis, "lock");
  ASSERT_NE(change, nullptr);
  model.steps[1].locked = 0;
  EXPECT_NEAR(change->predicted.value * simulated_step_s(model), 1, 0.05);
}

TEST(Diagnose, bandwidth_is_told_from_a_slow_step) {
  PipelineModel model = usual_model();
  model.workers = 8;
  model.capacity = {8, 1.5};
  model.steps[3] = step_of("blur", Culprit::transforms, 0, 8e-3);
  model.steps[3].is_memory_bound = true;
  const Diagnosis diagnosis = diagnose(observed_of(model));
  EXPECT_EQ(diagnosis.verdict, Culprit::memory_bandwidth) << diagnosis.reason;
}

TEST(Diagnose, two_that_are_as_slow_are_both_named) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0.4;
  model.steps[1] = step_of("decode", Culprit::decode, 0, 47e-3);
  const Diagnosis diagnosis = diagnose(observed_of(model, 0.3));
  EXPECT_THAT(diagnosis.culprits, testing::UnorderedElementsAre(Culprit::decode, Culprit::copy));
}

TEST(Diagnose, wide_intervals_are_no_evidence) {
  Observations observed = observed_of(article(), 0.01);
  Measured& rate = *observed.rungs.back().with_training;
  rate.low = 0.5 * rate.value;
  rate.high = 1.5 * rate.value;
  const Diagnosis diagnosis = diagnose(observed);
  EXPECT_EQ(diagnosis.verdict, Culprit::not_enough_evidence);
  EXPECT_THAT(diagnosis.reason, HasSubstr("--budget"));
}

TEST(Diagnose, rungs_that_failed_are_no_evidence) {
  Observations observed = observed_of(article(), 0.01);
  observed.rungs.front().with_training.reset();
  observed.rungs.front().error = "no";
  const Diagnosis diagnosis = diagnose(observed);
  EXPECT_EQ(diagnosis.verdict, Culprit::not_enough_evidence);
  EXPECT_EQ(diagnosis.costs.size(), 6U);
}

TEST(Diagnose, a_busy_host_is_told_from_a_busy_device) {
  Observations observed = observed_of(usual_model());
  observed.situation.on_gpu = true;
  observed.rungs[1].name = kPageableRung;
  observed.situation.plan.schedule.loader.pinned = false;
  observed.device = {{"train", {0.1, 0.1, 0.1, "s", 9}, 0.095, 0}};
  EXPECT_EQ(diagnose(observed).verdict, Culprit::launch);
  observed.device[0].enqueue_s = 0.01;
  observed.utilisation.sm_activity = 0.2;
  EXPECT_EQ(diagnose(observed).verdict, Culprit::none);
  observed.utilisation.sm_activity = 0.9;
  EXPECT_EQ(diagnose(observed).verdict, Culprit::gpu);
}

TEST(Changes, storage_that_waits_asks_for_reads_in_flight_and_more_workers) {
  PipelineModel model = usual_model();
  model.steps[0] = step_of("read", Culprit::raw_reading, 60e-3, 0);
  const Diagnosis diagnosis = diagnose(observed_of(model));
  EXPECT_EQ(diagnosis.verdict, Culprit::raw_reading);
  ASSERT_NE(find(diagnosis, "read_ahead"), nullptr);
  ASSERT_NE(find(diagnosis, "workers"), nullptr);
  EXPECT_GT(find(diagnosis, "workers")->gain.value, 3);
}

TEST(Changes, a_cache_stands_before_the_first_random_step_and_fits) {
  PipelineModel model = usual_model();
  model.steps[1] = step_of("decode", Culprit::decode, 0, 50e-3);
  Observations observed = observed_of(model);
  const Diagnosis diagnosis = diagnose(observed);
  const Change* cache = find(diagnosis, "cache");
  ASSERT_NE(cache, nullptr);
  Plan plan;
  cache->apply(plan);
  EXPECT_EQ(plan.schedule.loader.cache->after, "decode");
  EXPECT_GE(plan.schedule.loader.cache->bytes, 1000U << 16);
  observed.situation.free_memory_bytes = 1 << 20;
  EXPECT_EQ(find(diagnose(observed), "cache"), nullptr);
}

TEST(Changes, a_remedy_is_predicted_together) {
  const Observations observed = observed_of(article(), 0.01);
  const Diagnosis diagnosis = diagnose(observed);
  const Remedy remedy = remedy_of(observed, diagnosis);
  ASSERT_FALSE(remedy.changes.empty());
  EXPECT_GT(remedy.plan.schedule.loader.workers, 4U);
  EXPECT_NEAR(remedy.predicted.value, 1 / 0.31, 0.15);
}

}  // namespace
}  // namespace slipstream
