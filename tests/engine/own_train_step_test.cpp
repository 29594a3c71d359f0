#include "slipstream/engine/train_step.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "engine/engine.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/engine/checkpoint.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t kOwnSteps = 9;

/// Two networks that train against each other: one generates features from noise, the other
/// distinguishes them from those of images.
class Adversarial final : public TrainStep {
 public:
  torch::nn::Linear generator{8, 6 * 4 * 4};
  torch::nn::Conv2d critic{torch::nn::Conv2dOptions(6, 1, 2)};
  std::shared_ptr<Optimizer> of_generator = adamw({.lr = 0.01});
  std::shared_ptr<Optimizer> of_critic = sgd({.lr = 0.01, .momentum = 0.5});
  bool fails = false;

  std::vector<NamedModule> modules() const override {
    return {{"generator", generator.ptr()}, {"critic", critic.ptr()}};
  }

  void bind(const StepSettings&) override {
    of_generator->bind(trained(*generator));
    of_critic->bind(trained(*critic));
  }

  LossValue train(const Batch& batch) override {
    const at::Tensor& real = batch.at("features");
    const at::Tensor noise = at::randn({real.size(0), 8}, real.options());
    const at::Tensor made = generator->forward(noise).view({-1, 6, 4, 4});
    (critic->forward(made.detach()).mean() - critic->forward(real).mean()).backward();
    update(*of_critic);
    if (fails) throw std::runtime_error("half way");
    const at::Tensor loss = -critic->forward(made).mean();
    loss.backward();
    update(*of_generator);
    return {loss.detach(), {}, {}, 0};
  }

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> all;
    for (const auto& [name, tensor] : of_generator->state())
      all.push_back({"generator." + name, tensor});
    for (const auto& [name, tensor] : of_critic->state()) all.push_back({"critic." + name, tensor});
    return all;
  }

 private:
  static std::vector<NamedTensor> trained(torch::nn::Module& module) {
    std::vector<NamedTensor> all;
    for (const auto& each : module.named_parameters()) all.push_back({each.key(), each.value()});
    return all;
  }

  void update(Optimizer& optimizer) const {
    {
      const at::NoGradGuard no_gradients;
      optimizer.step({});
    }
    for (const NamedModule& each : modules())
      for (const at::Tensor& parameter : each.module->parameters())
        parameter.mutable_grad().reset();
  }
};

class CustomTrainStepTest : public EngineTest {
 protected:
  static std::unique_ptr<Trainer> own(bool fails = false) {
    at::manual_seed(4);
    torch::nn::Conv2d encoder(torch::nn::Conv2dOptions(3, 6, 2).stride(2));
    freeze(*encoder);
    const auto step = std::make_shared<Adversarial>();
    step->fails = fails;
    const auto encode = [encoder](Batch& batch) mutable {
      batch.set("features", encoder->forward(batch.at("image").to(at::kFloat).div(255)));
    };
    return std::make_unique<Trainer>(pipeline(synthetic_segmentation({64, 8, 5, 1}), {4})
                                         .stage("encode", {encoder.ptr(), encode})
                                         .train("train", step),
                                     context(), exact());
  }
  static std::vector<Plan> plans() {
    return {serial_plan(), build_plan(kThreeLanes, Driver::threaded, 4),
            build_plan(kThreeLanes, Driver::interleaved, 3)};
  }
};

TEST_F(CustomTrainStepTest, TwoOptimizersGiveSerialDigestInEveryPlan) {
  const RunResult serial = own()->run(serial_plan(), steps(kOwnSteps));
  ASSERT_NE(serial.losses.front(), serial.losses.back());
  for (const Plan& plan : plans()) {
    const RunResult result = run_with(*own(), plan, steps(kOwnSteps), delayed(300, 2));
    EXPECT_EQ(result.losses, serial.losses) << describe(plan);
    EXPECT_EQ(result.digest, serial.digest) << describe(plan);
  }
}

TEST_F(CustomTrainStepTest, ResumedCheckpointGivesUninterruptedDigest) {
  const std::uint64_t whole = own()->run(serial_plan(), steps(kOwnSteps)).digest;
  const TemporaryFolder place;
  {
    const auto one = own();
    Checkpoints checkpoints({.folder = place.path()}, *one);
    one->run(plans()[1], steps(4));
    EXPECT_TRUE(checkpoints.save()) << checkpoints.problem();
  }
  const auto other = own();
  load_latest_checkpoint(*other, place.path());
  EXPECT_EQ(other->run(plans()[2], steps(kOwnSteps - 4)).digest, whole);
}

TEST_F(CustomTrainStepTest, RunAfterFailedStepIsRefused) {
  const auto one = own(true);
  EXPECT_THAT(thrown_by([&] { one->run(serial_plan(), steps(2)); }), HasSubstr("half way"));
  EXPECT_THAT(thrown_by([&] { one->run(serial_plan(), steps(2)); }),
              StartsWith("Refused: the weights do not belong to any step"));
}

TEST_F(CustomTrainStepTest, TrainingOptionsAndNullStepAreRefused) {
  const Pipeline declared = pipeline(synthetic_segmentation({64, 8, 5, 1}), {4})
                                .train("train", std::make_shared<Adversarial>());
  EXPECT_THAT(thrown_by([&] { Pipeline(declared).with_training({.accumulate = 2}); }),
              HasSubstr("a custom training step"));
  EXPECT_THAT(thrown_by([&] {
                pipeline(synthetic_segmentation({64, 8, 5, 1}), {4})
                    .train("train", std::shared_ptr<TrainStep>());
              }),
              HasSubstr("no training step"));
}

TEST_F(CustomTrainStepTest, Fp16GivesSerialDigestInPipelinedPlan) {
  const auto fp16 = exact(Precision::fp16);
  const RunResult serial =
      fresh_run({}, build_plan({{"copy", "encode", "train"}}, Driver::interleaved, 1, fp16),
                steps(kOwnSteps));
  const Plan plan = build_plan(kThreeLanes, Driver::threaded, 4, fp16);
  EXPECT_EQ(fresh_run({}, plan, steps(kOwnSteps), delayed(300, 1)).digest, serial.digest);
  EXPECT_NE(serial.digest, fresh_run({}, serial_plan(), steps(kOwnSteps)).digest);
  EXPECT_TRUE(std::isfinite(serial.losses.back()));
}

}  // namespace
}  // namespace slipstream::test
