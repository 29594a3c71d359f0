#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "doctor/model_parts.h"
#include "doctor/observed.h"
#include "slipstream/core/error.h"
#include "slipstream/doctor/diagnosis.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

constexpr double kLineS = 0.02;
constexpr double kPassingS = 0.004;
constexpr double kSampleBytes = 1 << 16;  ///< of each step of make_observations()

/// A PyTorch loop on a CPU: 2 worker processes, batches of 8, a training step of 20 ms, and 4 ms
/// for passing a batch to training. The transform takes 12 ms for a sample.
PipelineModel process_model() {
  PipelineModel model;
  model.steps = {make_step("data set", Bottleneck::read, 0, 1e-4),
                 make_step("blur", Bottleneck::transforms, 0, 12e-3),
                 make_step("collate", Bottleneck::collate, 0, 1e-3)};
  model.workers = 2;
  model.batch_size = 8;
  model.slabs = 5;
  model.slabs_per_worker = 2;
  model.capacity = {2, 2};
  model.line_waiting_s = kLineS + kPassingS;
  return model;
}

/// The measurements of that loop. Worker processes pass the level of host batches.
Observations process_observations(const PipelineModel& model = process_model()) {
  Observations observed = make_observations(model, kPassingS);
  observed.slabs_per_worker = model.slabs_per_worker;
  observed.situation.has_worker_processes = true;
  for (Level& level : observed.levels)
    if (level.name == kHostLevel) level.name = kCollatedLevel;
  return observed;
}

double steps_per_second(double step_s) { return 1 / step_s; }

TEST(NativePortTest, PassingOfBatchesBetweenProcessesCountsAsCopy) {
  PipelineModel model = process_model();
  model.steps[1] = make_step("blur", Bottleneck::transforms, 0, 1e-4);
  Observations observed = process_observations(model);
  const Diagnosis found = diagnose(observed);
  EXPECT_EQ(found.verdict, Bottleneck::copy);
  EXPECT_THAT(found.reason, HasSubstr("passing batches from worker processes to the device"));
  observed.situation.has_worker_processes = false;
  EXPECT_NE(diagnose(observed).verdict, Bottleneck::copy) << "threads pass no batches";
}

TEST(NativePortTest, SlowerOfCopyAndPassingIsTheHostRate) {
  Observations observed;
  observed.situation.on_gpu = observed.situation.has_worker_processes = true;
  const auto level = [&observed](std::string_view name, double rate) {
    Level& made = observed.levels.emplace_back();
    made.name = name;
    made.with_training = Measured{rate, rate, rate, "steps/s", 9};
  };
  level(kPinnedLevel, 48);
  level(kPageableLevel, 30);
  observed.situation.plan.schedule.loader.pin_memory = true;
  EXPECT_EQ(host_rate(observed)->value, 48);
  level(kCollatedLevel, 40);
  EXPECT_EQ(host_rate(observed)->value, 40);
  observed.situation.plan.schedule.loader.pin_memory = false;
  EXPECT_EQ(host_rate(observed)->value, 30);
}

TEST(NativePortTest, WhatIfKeepsPassingAndNativeLoaderDoesNot) {
  const Observations observed = process_observations();
  const Diagnosis found = diagnose(observed);
  const Change slower = what_if(observed, found, {{"blur", 1e-4}});
  EXPECT_NEAR(slower.predicted.value, steps_per_second(kLineS + kPassingS), 0.5);
  const Change ported = port_to_native(observed, found, {.steps = {{"blur", 1e-4}}});
  EXPECT_NEAR(ported.predicted.value, steps_per_second(kLineS), 0.5);
  EXPECT_EQ(ported.id, "native_transforms");
  EXPECT_EQ(ported.effort, Effort::code);
  EXPECT_FALSE(ported.apply);
}

TEST(NativePortTest, CollatingCostsOnlyCopiesOfSamples) {
  PipelineModel model = process_model();
  model.steps[2] = make_step("collate", Bottleneck::collate, 0, 20e-3);
  Observations observed = process_observations(model);
  observed.capacity.copy_bytes_per_second = kSampleBytes / 5e-3;  // a copy takes 5 ms
  const Diagnosis found = diagnose(observed);
  const auto batch_s = [&](bool has_processes) {
    const NativePort port{.steps = {{"blur", 10e-3}}, .has_worker_processes = has_processes};
    return 1 / port_to_native(observed, found, port).predicted.value;
  };
  // Two workers on two cores make a batch of 8 samples.
  EXPECT_NEAR(batch_s(false), 8 * (10e-3 + 5e-3) / 2, 3e-3) << "one copy, to the batch";
  EXPECT_NEAR(batch_s(true), 8 * (10e-3 + 15e-3) / 2, 4e-3) << "two more, between processes";
}

TEST(NativePortTest, LoopWithoutWorkersGetsOneThatLoadsInAdvance) {
  PipelineModel model = process_model();
  model.workers = 1;
  model.slabs = 1;
  model.line_waiting_s = kLineS;
  Observations observed = make_observations(model);
  observed.workers = 0;
  observed.slabs_per_worker = 2;
  const Diagnosis found = diagnose(observed);
  const NativePort port{.steps = {{"blur", 2e-3}, {"data set", 0}}};
  EXPECT_NEAR(port_to_native(observed, found, port).predicted.value, steps_per_second(kLineS), 0.5)
      << "16 ms for the samples of a batch overlap with a step of 20 ms";
}

TEST(NativePortTest, SlowCopyOnSeparateStreamLimitsTheRate) {
  Observations observed = process_observations();
  observed.device = {{"copy", {0.03, 0.03, 0.03, "s", 9}}, {"step", {0.02, 0.02, 0.02, "s", 9}}};
  const Change ported = port_to_native(observed, diagnose(observed), {.steps = {{"blur", 1e-4}}});
  EXPECT_NEAR(ported.predicted.value, steps_per_second(0.03), 0.5);
}

struct RecordedStep {
  std::string name;
  Bottleneck group;
  double wall_ms, cpu_ms, bytes;
};

/// Returns the measurements of a loop of bench/python_doctor_cases.py on two cores, with the means
/// of its samples.
Observations recorded(unsigned workers, const MachineCapacity& capacity,
                      const std::vector<RecordedStep>& steps,
                      const std::vector<std::pair<std::string_view, Measured>>& levels,
                      const Measured& samples_per_second) {
  Observations observed;
  observed.batch_size = 8;
  observed.workers = workers;
  observed.slabs_per_worker = 2;
  observed.slabs = 2 * workers + 1;
  observed.capacity = capacity;
  observed.situation.has_worker_processes = workers > 0;
  observed.situation.cores = 2;
  observed.line_cpu_s = 1.5e-4;
  observed.rate_of_all_workers = samples_per_second;
  if (workers > 0) observed.rate_of_one_worker = samples_per_second;
  for (const RecordedStep& step : steps) {
    HostStepCost& cost = observed.host.emplace_back();
    cost.name = step.name;
    cost.group = step.group;
    cost.wall_s.assign(16, static_cast<float>(1e-3 * step.wall_ms));
    cost.cpu_s.assign(16, static_cast<float>(1e-3 * step.cpu_ms));
    cost.wall_of_all_s = 1e-3 * step.wall_ms;
    cost.cpu_of_all_s = 1e-3 * step.cpu_ms;
    cost.bytes = step.bytes;
  }
  for (const auto& [name, rate] : levels) {
    Level& level = observed.levels.emplace_back();
    level.name = name;
    level.with_training = rate;
  }
  return observed;
}

/// "transforms without workers". The loop that the printed code made ran at 46.7 [45.4, 47.3]
/// steps/s.
TEST(NativePortTest, RecordedLoopWithoutWorkersIsPredictedWithinTenPercent) {
  const Observations observed =
      recorded(0, {1.72, 1.72},
               {{"data set", Bottleneck::read, 0.0229, 0.0229, 150528},
                {"GaussianBlur", Bottleneck::transforms, 5.389, 4.897, 150528},
                {"ToDtype", Bottleneck::transforms, 0.1187, 0.0814, 602112},
                {"collate", Bottleneck::collate, 0.058, 0.0574, 602120}},
               {{kDeviceLevel, {49.4, 49.2, 49.6, "steps/s", 9}},
                {kProcessedLevel, {47.1, 46.6, 47.6, "steps/s", 8}},
                {kWholeLevel, {13.6, 13.0, 14.3, "steps/s", 16}}},
               {171, 157, 185, "samples/s", 16});
  const Diagnosis found = diagnose(observed);
  const NativePort port{.steps = {{"GaussianBlur", 0.32e-3}}};
  EXPECT_NEAR(port_to_native(observed, found, port).predicted.value / 46.7, 1, 0.1);
  EXPECT_LT(what_if(observed, found, port.steps).predicted.value / 46.7, 0.9)
      << "the native loader loads in advance";
}

/// "v2: shuffled, flip, rotation and normalize". The changed loop ran at 43.2 [39.6, 50.7] steps/s,
/// while other programs kept the cores busy.
TEST(NativePortTest, RecordedLoopWithWorkerIsPredictedWithinTenPercent) {
  const Observations observed =
      recorded(1, {1.38, 1.38},
               {{"data set", Bottleneck::read, 0.0397, 0.0395, 307200},
                {"RandomHorizontalFlip", Bottleneck::transforms, 0.1566, 0.1132, 307200},
                {"RandomRotation", Bottleneck::transforms, 3.8883, 3.0327, 307200},
                {"ToDtype", Bottleneck::transforms, 0.2162, 0.1797, 1228800},
                {"Normalize", Bottleneck::transforms, 0.1841, 0.1831, 1228800},
                {"collate", Bottleneck::collate, 1.7177, 1.0396, 1228808}},
               {{kDeviceLevel, {46.4, 37.4, 55.4, "steps/s", 4}},
                {kCollatedLevel, {40.5, 37.9, 43.2, "steps/s", 16}},
                {kProcessedLevel, {33.3, 30.5, 36.1, "steps/s", 13}},
                {kWholeLevel, {21.2, 18.4, 24.1, "steps/s", 11}}},
               {131, 96, 166, "samples/s", 11});
  const Diagnosis found = diagnose(observed);
  const NativePort port{.steps = {{"RandomRotation", 1.03e-3}}};
  const Measured ported = port_to_native(observed, found, port).predicted;
  EXPECT_NEAR(ported.value / 43.2, 1, 0.1);
  EXPECT_LE(ported.low, 50.7);
  EXPECT_GE(ported.high, 39.6);
  EXPECT_LT(what_if(observed, found, port.steps).predicted.value, 0.95 * 43.2)
      << "collating and passing of batches remain";
}

TEST(NativePortTest, UnknownStepIsRefused) {
  const Observations observed = process_observations();
  EXPECT_THROW(port_to_native(observed, diagnose(observed), {.steps = {{"blurr", 0}}}), Refused);
}

TEST(NativePortTest, ReasonNamesTheBudgetAsTheUserGivesIt) {
  Observations observed = process_observations();
  for (Level& level : observed.levels) level.with_training = Measured{30, 10, 50, "steps/s", 2};
  EXPECT_THAT(diagnose(observed).reason, HasSubstr("(--budget)"));
  observed.situation.is_python_loop = true;
  EXPECT_THAT(diagnose(observed).reason, HasSubstr("(budget=)"));
}

}  // namespace
}  // namespace slipstream
