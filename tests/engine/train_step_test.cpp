#include "slipstream/engine/train_step.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <limits>

#include "slipstream/engine/stage.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr std::int64_t kSamples = 6;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first(register_module("first", torch::nn::Linear(4, 5))),
        norm(register_module("norm", torch::nn::BatchNorm1d(5))),
        last(register_module("last", torch::nn::Linear(5, 3))) {}

  at::Tensor forward(const at::Tensor& x) { return last(at::relu(norm(first(x)))); }

  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear last;
};
TORCH_MODULE(Net);

Net net() {
  at::manual_seed(3);
  return Net();
}

Batch make_batch(std::uint64_t number, std::int64_t samples = kSamples) {
  at::manual_seed(50 + number);
  Batch batch(number);
  batch.set("x", at::randn({samples, 4}));
  batch.set("label", at::randint(0, 3, {samples}, at::kLong));
  return batch;
}

std::shared_ptr<TrainStep> make_step(const Net& module, const TrainingOptions& options,
                                     double lr = 0.1, bool fp16 = false) {
  const ModuleRef called(module);
  auto step = train_step({called.module, called.forward_batch, sgd({.lr = lr, .momentum = 0.9}),
                          cross_entropy("x", "label")},
                         options);
  step->bind({.fp16 = fp16});
  return step;
}

std::vector<at::Tensor> values(const Net& module) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& each : module->parameters()) all.push_back(each.detach().clone());
  for (const at::Tensor& each : module->buffers()) all.push_back(each.clone());
  return all;
}

void expect_near(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-4, 1e-6)) << "tensor " << i;
}

void expect_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(found[i].equal(expected[i])) << "tensor " << i;
}

at::Tensor state_named(const TrainStep& step, const std::string& name) {
  for (const NamedTensor& each : step.state())
    if (each.name == name) return each.tensor;
  return {};
}

/// Returns a net that a plain PyTorch loop trained for `updates` updates of `accumulate` batches
/// each.
Net trained_by_pytorch(int updates, int accumulate, double clip) {
  Net module = net();
  torch::optim::SGD optimizer(module->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  std::uint64_t number = 0;
  for (int update = 0; update < updates; ++update) {
    optimizer.zero_grad();
    for (int part = 0; part < accumulate; ++part) {
      const Batch batch = make_batch(number++);
      (at::cross_entropy_loss(module->forward(batch.at("x")), batch.at("label")) / accumulate)
          .backward();
    }
    if (clip > 0) torch::nn::utils::clip_grad_norm_(module->parameters(), clip);
    optimizer.step();
  }
  return module;
}

TEST(TrainStepTest, MatchesPyTorchTrainingLoop) {
  const Net module = net();
  const auto step = make_step(module, {});
  for (std::uint64_t n = 0; n < 8; ++n) step->train(make_batch(n));
  expect_near(values(module), values(trained_by_pytorch(8, 1, 0)));
}

TEST(TrainStepTest, GradientClippingMatchesPyTorch) {
  const Net module = net();
  const auto step = make_step(module, {.clip_grad_norm = 0.3});
  for (std::uint64_t n = 0; n < 8; ++n) step->train(make_batch(n));
  expect_near(values(module), values(trained_by_pytorch(8, 1, 0.3)));
}

TEST(TrainStepTest, GradientAccumulationMatchesPyTorch) {
  const Net module = net();
  const auto step = make_step(module, {.accumulate = 3, .clip_grad_norm = 0.3});
  for (std::uint64_t n = 0; n < 12; ++n) {
    const at::Tensor weight = module->first->weight.detach().clone();
    step->train(make_batch(n));
    EXPECT_EQ(weight.equal(module->first->weight), n % 3 != 2) << "batch " << n;
  }
  expect_near(values(module), values(trained_by_pytorch(4, 3, 0.3)));
}

TEST(TrainStepTest, StateIncludesAccumulatedGradients) {
  const Net module = net();
  const auto step = make_step(module, {.accumulate = 2});
  step->train(make_batch(0));
  EXPECT_GT(state_named(*step, "accumulated.first.weight").abs().sum().item<double>(), 0);
  step->train(make_batch(1));
  EXPECT_EQ(state_named(*step, "accumulated.first.weight").abs().sum().item<double>(), 0);
}

TEST(TrainStepTest, ScheduleCountsUpdatesNotBatches) {
  const Net module = net();
  const LrSchedule schedule{.kind = LrSchedule::Kind::step, .step_size = 1, .gamma = 0.5};
  const auto step = make_step(module, {.accumulate = 2, .schedule = schedule});
  EXPECT_DOUBLE_EQ(*step->lr(1), 0.1);
  EXPECT_DOUBLE_EQ(*step->lr(2), 0.05);
  EXPECT_DOUBLE_EQ(*step->lr(7), 0.0125);
}

TEST(TrainStepTest, ScheduledLearningRateIsUsedForTheUpdate) {
  const Net half = net(), scheduled = net();
  const auto by_half = make_step(half, {}, 0.05);
  const auto by_schedule =
      make_step(scheduled, {.schedule = {.warmup = 100, .warmup_factor = 0.5}});
  by_half->train(make_batch(0));
  by_schedule->train(make_batch(0));
  expect_equal(values(scheduled), values(half));
}

TEST(TrainStepTest, EmaAveragesParametersAndFloatBuffers) {
  const Net module = net();
  const auto step = make_step(module, {.ema_decay = 0.9});
  std::vector<at::Tensor> expected = values(module);
  for (std::uint64_t n = 0; n < 3; ++n) {
    step->train(make_batch(n));
    const std::vector<at::Tensor> now = values(module);
    for (std::size_t i = 0; i < now.size(); ++i)
      expected[i] = now[i].is_floating_point() ? expected[i] * 0.9 + now[i] * 0.1 : now[i];
  }
  std::vector<at::Tensor> found;
  for (const NamedTensor& each : step->averaged()) found.push_back(each.tensor);
  expect_near(found, expected);
  EXPECT_EQ(step->averaged().front().name, "first.weight");
  EXPECT_TRUE(state_named(*step, "ema.first.weight").is_same(found.front()));
}

TEST(TrainStepTest, EmaChangesOnlyAfterUpdates) {
  const Net module = net();
  const auto step = make_step(module, {.accumulate = 2, .ema_decay = 0.5});
  const at::Tensor before = step->averaged().front().tensor.clone();
  step->train(make_batch(0));
  EXPECT_TRUE(step->averaged().front().tensor.equal(before));
  step->train(make_batch(1));
  EXPECT_FALSE(step->averaged().front().tensor.equal(before));
}

TEST(TrainStepTest, SkippedNanBatchChangesNothing) {
  const Net module = net();
  const auto step = make_step(module, {.ema_decay = 0, .on_nan = OnNonFinite::skip});
  step->train(make_batch(0));
  const std::vector<at::Tensor> before = values(module);
  const at::Tensor momentum = state_named(*step, "momentum_buffer.first.weight").clone();
  Batch bad = make_batch(1);
  bad.set("x", at::full({kSamples, 4}, kNaN));
  EXPECT_TRUE(std::isnan(step->train(bad).loss.item<float>()));
  expect_equal(values(module), before);
  EXPECT_TRUE(momentum.equal(state_named(*step, "momentum_buffer.first.weight")));
  step->train(make_batch(2));
  EXPECT_FALSE(values(module).front().equal(before.front()));
}

TEST(TrainStepTest, AdamWDoesNotCountASkippedUpdate) {
  const Net module = net();
  const ModuleRef called(module);
  const auto step =
      train_step({called.module, called.forward_batch, adamw({}), cross_entropy("x", "label")},
                 {.on_nan = OnNonFinite::skip});
  step->bind({});
  Batch bad = make_batch(0);
  bad.set("x", at::full({kSamples, 4}, kNaN));
  step->train(bad);
  EXPECT_EQ(state_named(*step, "step.first.weight").item<float>(), 0);
  step->train(make_batch(1));
  EXPECT_EQ(state_named(*step, "step.first.weight").item<float>(), 1);
}

TEST(TrainStepTest, LossScalingGivesTheSameWeights) {
  const Net plain = net(), scaled = net();
  const auto by_plain = make_step(plain, {.clip_grad_norm = 0.5});
  const auto by_scaled = make_step(scaled, {.clip_grad_norm = 0.5}, 0.1, true);
  for (std::uint64_t n = 0; n < 4; ++n) {
    by_plain->train(make_batch(n));
    by_scaled->train(make_batch(n));
  }
  expect_near(values(scaled), values(plain));
  EXPECT_EQ(state_named(*by_scaled, "loss_scale").item<float>(), 65536);
  EXPECT_EQ(state_named(*by_scaled, "loss_scale_growth").item<int>(), 4);
}

TEST(TrainStepTest, NonFiniteGradientsHalveTheLossScale) {
  const Net module = net();
  const auto step = make_step(module, {}, 0.1, true);
  const at::Tensor before = module->last->weight.detach().clone();
  Batch bad = make_batch(0);
  bad.set("x", at::full({kSamples, 4}, kNaN));
  step->train(bad);
  EXPECT_EQ(state_named(*step, "loss_scale").item<float>(), 32768);
  EXPECT_TRUE(before.equal(module->last->weight));
}

TEST(TrainStepTest, DefaultStateHoldsOneMomentumBufferPerParameter) {
  const Net module = net();
  std::vector<std::string> names;
  for (const NamedTensor& each : make_step(module, {})->state()) names.push_back(each.name);
  EXPECT_EQ(names.size(), module->parameters().size());
  EXPECT_THAT(names, Contains("momentum_buffer.norm.bias"));
}

TEST(TrainStepTest, FailedStepIsIntactOnlyWithoutBuffers) {
  const auto fail = [](const std::shared_ptr<torch::nn::Module>& module) {
    const auto step = train_step(
        {module,
         [](Batch&, const std::string&) -> at::Tensor { throw std::runtime_error("no output"); },
         sgd({}), cross_entropy("x", "label")});
    step->bind({});
    EXPECT_THAT(thrown_by([&] { step->train(make_batch(0)); }), HasSubstr("no output"));
    return step->is_intact();
  };
  EXPECT_TRUE(fail(torch::nn::Linear(2, 2).ptr()));
  EXPECT_FALSE(fail(torch::nn::BatchNorm1d(2).ptr()));
}

TEST(TrainStepTest, ModuleCanTakeTheBatchAndAddFields) {
  struct TwoInputs : torch::nn::Module {
    TwoInputs() : linear(register_module("linear", torch::nn::Linear(4, 3))) {}
    at::Tensor forward(Batch& batch) {
      batch.set("hidden", linear(batch.at("a") + batch.at("b")));
      return batch.at("hidden") * 2;
    }
    torch::nn::Linear linear;
  };
  const ModuleRef called(std::make_shared<TwoInputs>());
  EXPECT_FALSE(called.forward);
  const auto step = train_step({called.module, called.forward_batch, sgd({.lr = 1}),
                                custom_loss("", [](const at::Tensor& output, const Batch& batch) {
                                  return output.sum() - batch.at("hidden").sum();
                                })});
  step->bind({});
  Batch batch;
  batch.set("a", at::ones({2, 4}));
  batch.set("b", at::ones({2, 4}));
  const at::Tensor before = called.module->parameters()[0].detach().clone();
  step->train(batch);
  EXPECT_TRUE(at::allclose(before - called.module->parameters()[0], at::full({3, 4}, 4.0)));
  EXPECT_FALSE(batch.contains("hidden"));
}

TEST(TrainStepTest, OutOfRangeOptionsAreRefused) {
  const auto refused = [](const TrainingOptions& options) {
    return thrown_by([&] { train_step({}, options); });
  };
  EXPECT_THAT(refused({.accumulate = 0}),
              AllOf(HasSubstr("Refused: "), HasSubstr("accumulate must be at least 1")));
  EXPECT_THAT(refused({.clip_grad_norm = -1}), HasSubstr("clip_grad_norm"));
  EXPECT_THAT(refused({.clip_grad_norm = INFINITY}), HasSubstr("clip_grad_norm"));
  EXPECT_THAT(refused({.ema_decay = 1}), HasSubstr("ema_decay"));
  EXPECT_THAT(refused({.schedule = {.kind = LrSchedule::Kind::step}}), HasSubstr("step size"));
}

}  // namespace
}  // namespace slipstream
