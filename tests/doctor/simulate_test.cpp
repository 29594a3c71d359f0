#include <gtest/gtest.h>

#include "doctor/observed.h"

namespace slipstream {
namespace {

constexpr double kNear = 0.01;

TEST(Simulation, SlowTrainingStepDeterminesStepTime) {
  EXPECT_NEAR(simulated_step_s(usual_model()), 0.1, 1e-4);
}

TEST(Simulation, StepTimeIsSampleCostDividedByWorkers) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0;
  const double expected = 32 * 4.01e-3 / 4;
  EXPECT_NEAR(simulated_step_s(model) / expected, 1, kNear);
}

TEST(Simulation, ExcessWorkersAreLimitedByCores) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0;
  model.workers = 16;
  model.capacity.cores = 2;
  EXPECT_NEAR(simulated_step_s(model) / (32 * 4.01e-3 / 2), 1, kNear);
}

TEST(Simulation, WaitingWorkersNeedNoCore) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0;
  for (auto& step : model.steps) std::swap(step.waiting_s, step.working_s);
  model.workers = 16;
  model.capacity.cores = 1;
  EXPECT_NEAR(simulated_step_s(model) / (32 * 4.01e-3 / 16), 1, 0.03);
}

TEST(Simulation, LockedStepRunsOneWorkerAtATime) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0;
  model.workers = 8;
  model.steps[1] = make_step("decode", Bottleneck::decode, 0, 5e-3);
  model.steps[1].locked = 1;
  EXPECT_NEAR(simulated_step_s(model) / (32 * 5e-3), 1, kNear);
}

TEST(Simulation, MemoryBoundStepIsLimitedByMemoryStreams) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0;
  model.workers = 8;
  model.capacity = {8, 2};
  for (auto& step : model.steps) step.working_s = {0.0F};
  model.steps[3].working_s = {2e-3F};
  model.steps[3].is_memory_bound = true;
  EXPECT_NEAR(simulated_step_s(model) / (32 * 2e-3 / 2), 1, kNear);
}

TEST(Simulation, ReadersTakeOverWaitingForReads) {
  PipelineModel model = usual_model();
  model.line_waiting_s = 0;
  model.steps[0] = make_step("read", Bottleneck::read, 50e-3, 0);
  EXPECT_NEAR(simulated_step_s(model) / (32 * 53.01e-3 / 4), 1, 0.02);
  model.readers = 32;
  EXPECT_NEAR(simulated_step_s(model) / (32 * 50e-3 / 32), 1, 0.05);
}

TEST(Simulation, TrainingStepCompetesWithWorkersForCores) {
  PipelineModel model = usual_model();
  model.capacity.cores = 2;
  model.workers = 2;
  model.line_waiting_s = 0;
  model.line_working_s = 0.05;
  // The workers need 128 ms and the lanes 50 ms, on two cores.
  EXPECT_NEAR(simulated_step_s(model) / ((0.12832 + 0.05) / 2), 1, 0.03);
}

TEST(Simulation, ZeroCostsAndMissingStepsAddNoTime) {
  PipelineModel model = usual_model();
  for (auto& step : model.steps) step.working_s = {0.0F};
  model.line_waiting_s = 0;
  EXPECT_EQ(simulated_step_s(model), 0);
  model.steps.clear();
  model.line_waiting_s = 0.1;
  EXPECT_NEAR(simulated_step_s(model), 0.1, 1e-9);
}

TEST(Simulation, VaryingCostsIncreaseStepTimeNearBalance) {
  PipelineModel model = usual_model();
  model.batch_size = 1;
  model.slabs = 2;
  model.workers = 1;
  model.steps = {make_step("read", Bottleneck::read, 10e-3, 0)};
  model.line_waiting_s = 10e-3;
  const double steady = simulated_step_s(model);
  EXPECT_NEAR(steady / 10e-3, 1, kNear);
  model.steps[0].waiting_s = {1e-3F, 19e-3F, 1e-3F, 19e-3F, 19e-3F, 1e-3F, 1e-3F, 19e-3F};
  model.steps[0].working_s.assign(8, 0.0F);
  EXPECT_GT(simulated_step_s(model), 1.1 * steady);
}

TEST(Capacity, IsBetweenOneAndNumberOfThreads) {
  const MachineCapacity capacity = measure_capacity(2);
  EXPECT_GE(capacity.cores, 1);
  EXPECT_LE(capacity.cores, 2);
  EXPECT_GE(capacity.memory_streams, 1);
  EXPECT_LE(capacity.memory_streams, 2);
}

}  // namespace
}  // namespace slipstream
