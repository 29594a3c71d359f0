#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <mutex>

#include "engine/engine.h"
#include "engine/recorded_work.h"
#include "slipstream/engine/checkpoint.h"

namespace slipstream::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kSteps = 30;

/// Copies the tensors that training changes and the state of the CPU's generator, and returns a
/// function that restores them.
std::function<void()> save_state(const Pipeline& pipeline) {
  const at::NoGradGuard no_gradients;
  std::vector<std::pair<at::Tensor, at::Tensor>> all;
  const auto add = [&](const at::Tensor& tensor) { all.emplace_back(tensor, tensor.clone()); };
  for (const NamedModule& each : pipeline.train_step()->modules()) {
    for (const at::Tensor& tensor : each.module->parameters()) add(tensor);
    for (const at::Tensor& tensor : each.module->buffers()) add(tensor);
  }
  for (const NamedTensor& each : pipeline.train_step()->state()) add(each.tensor);
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard lock(generator.mutex());
  return [all, generator, before = generator.get_state()]() mutable {
    const at::NoGradGuard none;
    for (const auto& [tensor, value] : all) tensor.copy_(value);
    const std::lock_guard again(generator.mutex());
    generator.set_state(before);
  };
}

/// On a GPU the plans record CUDA graphs. On a CPU a FakeRecorder takes their place.
class GraphPlanTest : public EngineTest {
 protected:
  static Plan graph_plan(const Plan::Numerics& numerics = exact(),
                         Driver driver = Driver::threaded) {
    Plan plan = build_plan(kThreeLanes, driver, 4, numerics);
    plan.schedule.graphs = true;
    return plan;
  }

  static RunHooks hooks(const Trainer& trainer) {
    RunHooks hooks;
    if (on_gpu()) return hooks;
    hooks.make_recorder = [&trainer](c10::Device, bool for_training) {
      auto recordings = std::make_shared<Recordings>();
      if (for_training) recordings->save = [&trainer] { return save_state(trainer.pipeline()); };
      return std::make_unique<FakeRecorder>(recordings);
    };
    return hooks;
  }

  /// Runs a fresh trainer under the plan with graphs, and compares it with serial.
  RunResult expect_bits_of_serial(const Pipeline& declared_for_serial, const Pipeline& declared,
                                  const Plan& plan, std::uint64_t steps = kSteps) {
    Plan serial = serial_plan();
    serial.numerics = plan.numerics;
    Trainer one(declared_for_serial, context(), plan.numerics);
    const RunResult expected = one.run(serial, test::steps(steps));
    Trainer other(declared, context(), plan.numerics);
    RunResult result = run_with(other, plan, test::steps(steps), hooks(other));
    EXPECT_EQ(result.digest, expected.digest);
    EXPECT_EQ(result.losses, expected.losses);
    EXPECT_THAT(result.graphs->warnings, IsEmpty());
    EXPECT_GT(result.graphs->replays, 0U);
    EXPECT_EQ(result.graphs->renewed, 0U);
    return result;
  }
};

TEST_F(GraphPlanTest, OptimizersComputeTheBitsOfSerial) {
  for (const char* optimizer : {"sgd", "momentum", "adamw"}) {
    SCOPED_TRACE(optimizer);
    const Tiny tiny{.optimizer = optimizer, .noisy = true};
    const RunResult result =
        expect_bits_of_serial(tiny_pipeline(tiny), tiny_pipeline(tiny), graph_plan());
    // Stage and training step, in four slots each, after three batches without a graph.
    EXPECT_EQ(result.graphs->graphs, 8U);
    EXPECT_EQ(result.graphs->replays, 2 * (kSteps - 3));
  }
}

TEST_F(GraphPlanTest, OneThreadForAllLanesComputesTheBitsOfSerial) {
  const Tiny tiny{.noisy = true};
  expect_bits_of_serial(tiny_pipeline(tiny), tiny_pipeline(tiny),
                        graph_plan(exact(), Driver::interleaved));
}

TEST_F(GraphPlanTest, PrecisionsComputeTheBitsOfSerial) {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    if (precision == Precision::fp16 && !on_gpu()) continue;
    SCOPED_TRACE(to_string(precision));
    const Tiny tiny{.optimizer = "adamw", .noisy = true};
    expect_bits_of_serial(tiny_pipeline(tiny), tiny_pipeline(tiny), graph_plan(exact(precision)));
  }
}

TEST_F(GraphPlanTest, ScheduleAccumulationClippingAndAveragesComputeTheBitsOfSerial) {
  for (const OnNonFinite on_nan : {OnNonFinite::stop, OnNonFinite::skip}) {
    TrainingOptions options;
    options.accumulate = 3;
    options.clip_grad_norm = 0.05;
    options.ema_decay = 0.9;
    options.on_nan = on_nan;
    options.schedule = {.kind = LrSchedule::Kind::cosine, .updates = 20, .warmup = 4};
    const Tiny tiny{.optimizer = "adamw", .noisy = true};
    const RunResult result =
        expect_bits_of_serial(tiny_pipeline(tiny).with_training(options),
                              tiny_pipeline(tiny).with_training(options), graph_plan(), 60);
    // The training step has one kind of graph for batches that update, another for the others.
    EXPECT_EQ(result.graphs->graphs, 12U);
  }
}

TEST_F(GraphPlanTest, LaterRunsReplayTheGraphsOfEarlierOnes) {
  const Tiny tiny{.noisy = true};
  const auto one = trainer(tiny);
  const std::uint64_t expected = fresh_run(tiny, serial_plan(), steps(3 * kSteps)).digest;
  const RunResult first = run_with(*one, graph_plan(), steps(kSteps), hooks(*one));
  EXPECT_EQ(first.graphs->graphs, 8U);
  const RunResult second = run_with(*one, graph_plan(), steps(kSteps), hooks(*one));
  EXPECT_EQ(second.graphs->graphs, 0U);
  EXPECT_EQ(second.graphs->replays, 2 * kSteps);
  one->release_graphs();
  const RunResult third = run_with(*one, graph_plan(), steps(kSteps), hooks(*one));
  EXPECT_EQ(third.graphs->graphs, 8U);
  EXPECT_EQ(third.digest, expected);
}

TEST_F(GraphPlanTest, RestoredStateIsTrainedByTheSameGraphs) {
  const Tiny tiny{.optimizer = "adamw", .noisy = true};
  const auto one = trainer(tiny);
  const std::uint64_t expected = fresh_run(tiny, serial_plan(), steps(2 * kSteps)).digest;
  run_with(*one, graph_plan(), steps(kSteps), hooks(*one));
  const State state = one->state();
  EXPECT_EQ(run_with(*one, graph_plan(), steps(kSteps), hooks(*one)).digest, expected);
  one->restore(state);
  EXPECT_EQ(run_with(*one, graph_plan(), steps(kSteps), hooks(*one)).digest, expected);
  const auto fresh = trainer(tiny);
  fresh->restore(state);
  EXPECT_EQ(run_with(*fresh, graph_plan(), steps(kSteps), hooks(*fresh)).digest, expected);
}

TEST_F(GraphPlanTest, ReplacedParameterIsRecordedAgain) {
  const Tiny tiny{.noisy = true};
  const auto one = trainer(tiny);
  run_with(*one, graph_plan(), steps(kSteps), hooks(*one));
  {
    const at::NoGradGuard no_gradients;
    for (const NamedModule& each : one->pipeline().train_step()->modules())
      for (at::Tensor& parameter : each.module->parameters())
        parameter.set_data(parameter.detach().clone());
  }
  const RunResult result = run_with(*one, graph_plan(), steps(kSteps), hooks(*one));
  EXPECT_EQ(result.graphs->graphs, 8U);
  EXPECT_EQ(result.digest, fresh_run(tiny, serial_plan(), steps(2 * kSteps)).digest);
}

TEST_F(GraphPlanTest, StageThatPassesFieldsOnAndReturnsViewsComputesTheBitsOfSerial) {
  const Tiny tiny{.extra = {{"pass", [](Batch& batch) {
                               const at::Tensor features = batch.at("features");
                               batch.set("first", features.narrow(1, 0, 2));
                               batch.set("features", features.mul(2).view(features.sizes()));
                               batch.set("same", batch.at("image"));
                             }}}};
  Plan plan = build_plan({{"copy"}, {"encode"}, {"pass"}, {"train"}}, Driver::threaded, 5);
  plan.schedule.graphs = true;
  const auto one = trainer(tiny);
  const RunResult result = run_with(*one, plan, steps(kSteps), hooks(*one));
  EXPECT_EQ(result.digest, fresh_run(tiny, serial_plan({"pass"}), steps(kSteps)).digest);
  EXPECT_EQ(result.graphs->renewed, 0U);
  EXPECT_EQ(result.graphs->graphs, 15U);
}

TEST_F(GraphPlanTest, TensorsThatAreKeptKeepTheirValues) {
  std::vector<std::pair<at::Tensor, at::Tensor>> kept;  // tensor and copy
  const auto keep = [&](const at::Tensor& output, const Batch& batch) {
    // Replays do not call it, so it keeps tensors only of the first batches.
    if (batch.number() < 3)
      for (const char* name : {"image", "features"})
        kept.emplace_back(batch.at(name), batch.at(name).clone());
    return output.mean();
  };
  const Tiny tiny{.loss = keep};
  const auto one = trainer(tiny);
  const RunResult result = run_with(*one, graph_plan(), steps(kSteps), hooks(*one));
  EXPECT_THAT(result.graphs->warnings, IsEmpty());
  ASSERT_EQ(kept.size(), 6U);
  for (const auto& [tensor, copy] : kept) EXPECT_TRUE(same_bits(tensor, copy));
}

TEST_F(GraphPlanTest, StepWithoutGraphKeyTrainsWithoutGraphAndIsReportedOnce) {
  struct Own final : TrainStep {
    explicit Own(std::shared_ptr<TrainStep> real) : step(std::move(real)) {}
    std::vector<NamedModule> modules() const override { return step->modules(); }
    void bind(const StepSettings& settings) override { step->bind(settings); }
    LossValue train(const Batch& batch) override { return step->train(batch); }
    std::vector<NamedTensor> state() const override { return step->state(); }
    std::shared_ptr<TrainStep> step;
  };
  const Tiny tiny{.noisy = true};
  const Pipeline inner = tiny_pipeline(tiny);
  const Pipeline declared = pipeline(inner.dataset(), inner.options())
                                .stage("encode", inner.stages().front().stage)
                                .train("train", std::make_shared<Own>(inner.train_step()));
  Trainer one(declared, context(), exact());
  const RunResult result = run_with(one, graph_plan(), steps(kSteps), hooks(one));
  EXPECT_EQ(result.digest, fresh_run(tiny, serial_plan(), steps(kSteps)).digest);
  EXPECT_THAT(result.graphs->warnings, ElementsAre(HasSubstr("graph_key()")));
  EXPECT_EQ(result.graphs->graphs, 4U);
  EXPECT_THAT(run_with(one, graph_plan(), steps(5), hooks(one)).graphs->warnings, IsEmpty());
}

TEST_F(GraphPlanTest, StageThatWaitsForTheDeviceRunsWithoutGraphAndIsReported) {
  if (!on_gpu()) GTEST_SKIP() << "only a CUDA graph cannot record a wait";
  const Tiny tiny{.extra = {{"wait", [](Batch& batch) {
                               const double mean = batch.at("features").mean().item<double>();
                               batch.set("features", batch.at("features").sub(mean));
                             }}}};
  Plan plan = build_plan({{"copy"}, {"encode"}, {"wait"}, {"train"}}, Driver::threaded, 5);
  plan.schedule.graphs = true;
  const auto one = trainer(tiny);
  const RunResult result = run_with(*one, plan, steps(kSteps), hooks(*one));
  EXPECT_EQ(result.digest, fresh_run(tiny, serial_plan({"wait"}), steps(kSteps)).digest);
  EXPECT_THAT(result.graphs->warnings, ElementsAre(HasSubstr("'wait' runs without CUDA graphs")));
  EXPECT_EQ(result.graphs->graphs, 10U);
}

TEST_F(GraphPlanTest, LossThatWaitsForTheDeviceTrainsWithoutGraph) {
  if (!on_gpu()) GTEST_SKIP() << "only a CUDA graph cannot record a wait";
  const Tiny tiny{
      .optimizer = "adamw", .noisy = true, .loss = [](const at::Tensor& output, const Batch&) {
        const at::Tensor loss = output.square().mean();
        return loss * (loss.item<float>() > 0.5F ? 1 : 2);
      }};
  const auto one = trainer(tiny);
  const RunResult result = run_with(*one, graph_plan(), steps(kSteps), hooks(*one));
  EXPECT_EQ(result.digest, fresh_run(tiny, serial_plan(), steps(kSteps)).digest);
  EXPECT_THAT(result.graphs->warnings, ElementsAre(HasSubstr("'train' runs without CUDA graphs")));
}

TEST_F(GraphPlanTest, LossThatIsNotFiniteEndsTheRunAtItsStep) {
  const Tiny tiny{.lr = 1e30};
  const auto one = trainer(tiny);
  EXPECT_THROW(run_with(*one, graph_plan(), steps(kSteps), hooks(*one)), Error);
  EXPECT_THROW(run_with(*one, graph_plan(), steps(1), hooks(*one)), Refused);
}

TEST_F(GraphPlanTest, PlansWithoutGraphsReportNone) {
  EXPECT_FALSE(fresh_run({}, serial_plan(), steps(4)).graphs.has_value());
}

}  // namespace
}  // namespace slipstream::test
