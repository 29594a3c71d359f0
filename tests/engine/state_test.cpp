#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>

#include <limits>
#include <new>

#include "engine/context_parts.h"
#include "engine/current_lane.h"
#include "engine/delays.h"
#include "engine/engine.h"
#include "engine/trial_guard.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::uint64_t kStateSteps = 12;
constexpr std::uint64_t kNever = ~std::uint64_t{0};

class StateTest : public EngineTest {
 protected:
  static std::vector<Plan> plans() {
    return {serial_plan(), build_plan({{"copy", "encode", "train"}}, Driver::threaded, 1),
            build_plan(kThreeLanes, Driver::interleaved, 4),
            build_plan(kThreeLanes, Driver::threaded, 3)};
  }

  /// A pipeline whose loss is multiplied by `value` at step `failing_`, or throws there if there is
  /// no `value`.
  Tiny failing(bool noisy, std::optional<float> value = std::nullopt) {
    Tiny tiny;
    tiny.noisy = noisy;
    tiny.loss = [this, value](const at::Tensor& output, const Batch& batch) {
      const at::Tensor loss = output.square().mean();
      if (batch.number() != failing_) return loss;
      if (!value) throw std::runtime_error("no luck");
      return loss * *value;
    };
    return tiny;
  }

  std::uint64_t undisturbed(const Tiny& tiny) {
    failing_ = kNever;
    return fresh_run(tiny, serial_plan(), steps(kStateSteps)).digest;
  }

  /// Checks that a run is refused until `state` has been restored, and then ends as an undisturbed
  /// one.
  void expect_usable_after(Trainer& one, const Plan& plan, const State& state,
                           std::uint64_t digest) {
    EXPECT_THAT(thrown_by([&] { one.run(plan, steps(1)); }),
                AllOf(StartsWith("Refused: the weights do not belong to any step"),
                      HasSubstr("restore()")));
    one.restore(state);
    failing_ = kNever;
    EXPECT_EQ(one.run(plan, steps(kStateSteps - one.position())).digest, digest);
  }

  std::uint64_t failing_ = kNever;
};

TEST_F(StateTest, TrialRestoresBuffersAndClearsGradients) {
  torch::nn::BatchNorm2d norm(3);
  norm->to(context().device());
  const std::vector<at::Tensor> parameters = norm->parameters();
  std::vector<at::Tensor> before;
  for (const at::Tensor& buffer : norm->buffers()) before.push_back(buffer.clone());
  const auto trial = [&] {
    const TrialGuard guard(norm->buffers(), parameters);
    norm->forward(at::ones({2, 3, 4, 4}, parameters.front().options())).sum().backward();
    EXPECT_FALSE(same_bits(norm->buffers().front(), before.front()));
    EXPECT_TRUE(parameters.front().grad().defined());
    throw std::bad_alloc();
  };
  EXPECT_THROW(trial(), std::bad_alloc);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(same_bits(norm->buffers()[i], before[i])) << "buffer " << i;
  for (const at::Tensor& parameter : parameters) EXPECT_FALSE(parameter.grad().defined());
}

TEST_F(StateTest, TrialGuardRestoresBuffersBeforeOtherStreamsUseThem) {
  torch::nn::BatchNorm2d norm(3);
  norm->to(context().device());
  const std::vector<at::Tensor> parameters = norm->parameters();
  const at::Tensor before = norm->running_mean.clone();
  Lane& lane = get_lane(context(), "trial", 0);
  const auto trial = [&] {
    const CurrentLane current(context(), lane);
    const TrialGuard guard(norm->buffers(), parameters);
    delay_lane(lane, 50e3);
    norm->running_mean.fill_(7);
    throw std::bad_alloc();
  };
  EXPECT_THROW(trial(), std::bad_alloc);
  EXPECT_TRUE(same_bits(norm->running_mean, before));
  norm->running_mean.fill_(3);
  lane.synchronize();
  EXPECT_TRUE(same_bits(norm->running_mean, at::full({3}, 3.0F)));
}

TEST_F(StateTest, ExistingGradientsAreIgnored) {
  const std::uint64_t digest = fresh_run({}, serial_plan(), steps(kStateSteps)).digest;
  for (const Plan& plan : plans()) {
    const auto one = trainer({});
    for (const at::Tensor& parameter : one->pipeline().train_stage().module->parameters())
      parameter.mutable_grad() = at::ones_like(parameter);
    EXPECT_EQ(one->run(plan, steps(kStateSteps)).digest, digest) << describe(plan);
  }
}

TEST_F(StateTest, NonFiniteLossEndsRunAtItsStepAndRequiresRestore) {
  const float infinite = std::numeric_limits<float>::infinity();
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), infinite, -infinite}) {
    const Tiny tiny = failing(false, value);
    const std::uint64_t digest = undisturbed(tiny);
    for (const Plan& plan : plans())
      for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{6}, kStateSteps - 1}) {
        SCOPED_TRACE(describe(plan) + ", step " + std::to_string(step));
        const auto one = trainer(tiny);
        const State state = one->state();
        failing_ = step;
        const std::string what = std::isnan(value) ? "NaN" : "infinite";
        EXPECT_THAT(thrown_by([&] { one->run(plan, steps(kStateSteps)); }),
                    AllOf(StartsWith("Error: stage 'train' at step " + std::to_string(step) +
                                     ": the loss is " + what + "."),
                          HasSubstr("smaller learning rate"), Not(HasSubstr("fp32"))));
        EXPECT_EQ(one->position(), step);
        expect_usable_after(*one, plan, state, digest);
      }
  }
}

TEST_F(StateTest, NonFiniteLossInBf16SuggestsFp32) {
  failing_ = 2;
  const Plan plan = build_plan(kThreeLanes, Driver::threaded, 3, exact(Precision::bf16));
  EXPECT_THAT(thrown_by([&] {
                fresh_run(failing(false, std::numeric_limits<float>::infinity()), plan, steps(4));
              }),
              HasSubstr("precision fp32"));
}

TEST_F(StateTest, NonFiniteLossDoesNotEndMeasurement) {
  const auto one = trainer(failing(false, std::numeric_limits<float>::quiet_NaN()));
  failing_ = 0;
  RunOptions options = steps(3);
  options.cut = Cut{"collate", 1};
  EXPECT_EQ(one->run(serial_plan(), options).losses.size(), 3U);
}

TEST_F(StateTest, StepThatFailsAfterChangingBuffersRequiresRestore) {
  const Tiny tiny = failing(true);
  const std::uint64_t digest = undisturbed(tiny);
  for (const Plan& plan : plans()) {
    SCOPED_TRACE(describe(plan));
    const auto one = trainer(tiny);
    one->run(plan, steps(3));
    const State state = one->state();
    failing_ = 6;
    EXPECT_THAT(thrown_by([&] { one->run(plan, steps(kStateSteps)); }), HasSubstr("no luck"));
    EXPECT_EQ(one->position(), 6U);
    expect_usable_after(*one, plan, state, digest);
  }
}

TEST_F(StateTest, RestoringInvalidStateStillRefusesRuns) {
  const Tiny tiny = failing(false, std::numeric_limits<float>::quiet_NaN());
  const std::uint64_t digest = undisturbed(tiny);
  const Plan plan = build_plan(kThreeLanes, Driver::threaded, 3);
  const auto one = trainer(tiny);
  const State good = one->state();
  failing_ = 6;
  EXPECT_THAT(thrown_by([&] { one->run(plan, steps(kStateSteps)); }), HasSubstr("the loss is NaN"));
  EXPECT_THAT(thrown_by([&] { measure_lanes_alone(*one, plan, 2); }), StartsWith("Refused: "));
  one->restore(one->state());
  EXPECT_THAT(thrown_by([&] { one->run(plan, steps(1)); }),
              HasSubstr("step 6 and later steps trained on a loss that is not finite"));
  expect_usable_after(*one, plan, good, digest);
}

TEST_F(StateTest, FirstFailureIsReportedAndProgressIsNotCalledAgain) {
  const Tiny tiny = failing(false, std::numeric_limits<float>::quiet_NaN());
  for (const Plan& plan : plans()) {
    SCOPED_TRACE(describe(plan));
    const auto one = trainer(tiny);
    failing_ = 3;
    std::uint64_t last_reported_step = 0;
    RunOptions options = steps(kStateSteps);
    options.progress = [&](const Progress& progress) {
      last_reported_step = progress.step;
      if (progress.step == 3) throw std::runtime_error("enough");
    };
    EXPECT_EQ(thrown_by([&] { one->run(plan, options); }), "Error: progress at step 2: enough");
    EXPECT_EQ(last_reported_step, 3U);
  }
}

TEST_F(StateTest, TrainingResumesToSerialDigestAfterProgressThrows) {
  const std::uint64_t digest = fresh_run({}, serial_plan(), steps(kStateSteps)).digest;
  for (const Plan& plan : plans()) {
    SCOPED_TRACE(describe(plan));
    const auto one = trainer({});
    RunOptions options = steps(kStateSteps);
    options.progress = [](const Progress& progress) {
      if (progress.step >= 3) throw std::runtime_error("enough");
    };
    EXPECT_EQ(thrown_by([&] { one->run(plan, options); }), "Error: progress at step 2: enough");
    EXPECT_EQ(one->run(plan, steps(kStateSteps - one->position())).digest, digest);
  }
}

}  // namespace
}  // namespace slipstream::test
