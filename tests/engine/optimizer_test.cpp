#include "slipstream/engine/optimizer.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "slipstream/core/error.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<at::Tensor> parameters() {
  at::manual_seed(11);
  return {at::randn({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(true),
          at::randn({5}).requires_grad_(true), at::randn({3, 7}).requires_grad_(true)};
}

std::vector<NamedTensor> named(const std::vector<at::Tensor>& tensors) {
  std::vector<NamedTensor> all;
  for (const at::Tensor& tensor : tensors)
    all.push_back({"p" + std::to_string(all.size()), tensor});
  return all;
}

std::vector<std::string> names(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> all;
  for (const NamedTensor& each : tensors) all.push_back(each.name);
  return all;
}

/// Sets the gradients of step `step`; the last parameter has none in every fourth step.
void set_gradients(const std::vector<at::Tensor>& parameters, int step) {
  at::manual_seed(static_cast<std::uint64_t>(100 + step));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor gradient = at::zeros_like(parameters[i]).copy_(at::randn(parameters[i].sizes()));
    const bool none = i == 2 && step % 4 == 3;
    parameters[i].mutable_grad() = none ? at::Tensor() : gradient;
  }
}

void expect_same_updates(Optimizer& ours, torch::optim::Optimizer& theirs,
                         const std::vector<at::Tensor>& our_parameters,
                         const std::vector<at::Tensor>& their_parameters) {
  for (int step = 0; step < 20; ++step) {
    set_gradients(our_parameters, step);
    set_gradients(their_parameters, step);
    {
      const at::NoGradGuard no_gradients;
      ours.step({});
    }
    theirs.step();
    for (std::size_t i = 0; i < our_parameters.size(); ++i)
      ASSERT_TRUE(at::allclose(our_parameters[i], their_parameters[i], 1e-5, 1e-6))
          << "step " << step << ", parameter " << i;
  }
}

TEST(SgdTest, FollowsPyTorch) {
  for (const SgdOptions& options :
       {SgdOptions{0.1, 0, 0, false}, SgdOptions{0.1, 0.9, 0, false},
        SgdOptions{0.05, 0.9, 0.01, false}, SgdOptions{0.05, 0.8, 0.01, true}}) {
    const auto ours = parameters(), theirs = parameters();
    const auto optimizer = sgd(options);
    optimizer->bind(named(ours));
    torch::optim::SGD reference(theirs, torch::optim::SGDOptions(options.lr)
                                            .momentum(options.momentum)
                                            .weight_decay(options.weight_decay)
                                            .nesterov(options.nesterov));
    expect_same_updates(*optimizer, reference, ours, theirs);
    const std::vector<std::string> state = {"momentum_buffer.p0", "momentum_buffer.p1",
                                            "momentum_buffer.p2"};
    EXPECT_EQ(names(optimizer->state()), options.momentum > 0 ? state : std::vector<std::string>());
  }
}

TEST(AdamWTest, FollowsPyTorch) {
  for (const AdamWOptions& options : {AdamWOptions{}, AdamWOptions{0.01, 0.8, 0.95, 1e-6, 0},
                                      AdamWOptions{0.02, 0, 0.9, 1e-8, 0.1}}) {
    const auto ours = parameters(), theirs = parameters();
    const auto optimizer = adamw(options);
    optimizer->bind(named(ours));
    torch::optim::AdamW reference(theirs, torch::optim::AdamWOptions(options.lr)
                                              .betas({options.betas[0], options.betas[1]})
                                              .eps(options.eps)
                                              .weight_decay(options.weight_decay));
    expect_same_updates(*optimizer, reference, ours, theirs);
    EXPECT_THAT(names(optimizer->state()),
                ElementsAre("exp_avg.p0", "exp_avg.p1", "exp_avg.p2", "exp_avg_sq.p0",
                            "exp_avg_sq.p1", "exp_avg_sq.p2", "step.p0", "step.p1", "step.p2"));
  }
}

TEST(OptimizerTest, GroupsUseTheirOwnLearningRateAndWeightDecay) {
  const std::vector<ParameterGroup> groups = {
      {[](const NamedTensor& each) { return each.name == "p1"; }, 0.5, 0.0},
      {[](const NamedTensor& each) { return each.name != "p0"; }, 2, std::nullopt}};
  for (const bool is_sgd : {true, false}) {
    const auto ours = parameters(), theirs = parameters();
    const auto optimizer =
        is_sgd ? sgd({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .groups = groups})
               : adamw({.lr = 0.1, .weight_decay = 0.1, .groups = groups});
    optimizer->bind(named(ours));
    std::vector<std::shared_ptr<Optimizer>> each;
    const double lrs[] = {0.1, 0.05, 0.2}, decays[] = {0.1, 0, 0.1};
    for (std::size_t i = 0; i < 3; ++i) {
      each.push_back(is_sgd ? sgd({.lr = lrs[i], .momentum = 0.9, .weight_decay = decays[i]})
                            : adamw({.lr = lrs[i], .weight_decay = decays[i]}));
      each.back()->bind({{"p", theirs[i]}});
    }
    const at::NoGradGuard no_gradients;
    for (int step = 0; step < 3; ++step) {
      set_gradients(ours, step);
      set_gradients(theirs, step);
      optimizer->step({.lr_factor = 0.5});
      for (const auto& one : each) one->step({.lr_factor = 0.5});
    }
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(ours[i].equal(theirs[i])) << i;
  }
}

TEST(OptimizerTest, NoWeightDecayOnSelectsBiasAndNormParameters) {
  const NamedTensor bias{"fc.bias", at::zeros({3})}, norm{"bn1.weight", at::zeros({3})},
      weight{"fc.weight", at::zeros({3, 3})};
  const auto both = no_weight_decay_on({"norm", "bias"});
  EXPECT_TRUE(both.takes(bias) && both.takes(norm) && !both.takes(weight));
  EXPECT_EQ(both.weight_decay, 0.0);
  const auto biases = no_weight_decay_on({"bias"}), norms = no_weight_decay_on({"norm"});
  EXPECT_TRUE(biases.takes(bias) && !biases.takes(norm) && !biases.takes(weight));
  EXPECT_TRUE(!norms.takes(bias) && norms.takes(norm) && !norms.takes(weight));
  EXPECT_THAT(thrown_by([] { no_weight_decay_on({"biass"}); }), HasSubstr("did you mean 'bias'?"));
}

TEST(OptimizerTest, BindResetsState) {
  const auto first = parameters(), second = parameters();
  const auto used = sgd({.lr = 0.1, .momentum = 0.9}), fresh = sgd({.lr = 0.1, .momentum = 0.9});
  const at::NoGradGuard no_gradients;
  used->bind(named(first));
  set_gradients(first, 0);
  used->step({});
  const auto again = parameters();
  used->bind(named(again));
  fresh->bind(named(second));
  set_gradients(again, 1);
  set_gradients(second, 1);
  used->step({});
  fresh->step({});
  for (std::size_t i = 0; i < again.size(); ++i) EXPECT_TRUE(again[i].equal(second[i]));
}

TEST(OptimizerTest, StateReturnsTheLiveTensors) {
  const auto all = parameters();
  const auto optimizer = adamw({});
  const at::NoGradGuard no_gradients;
  optimizer->bind(named(all));
  const std::vector<NamedTensor> state = optimizer->state();
  set_gradients(all, 0);
  optimizer->step({});
  EXPECT_GT(state[0].tensor.abs().sum().item<double>(), 0);
  EXPECT_EQ(state.back().tensor.item<float>(), 1);
}

TEST(OptimizerTest, StepWithoutGradientsChangesNothing) {
  const auto all = parameters(), before = parameters();
  const at::NoGradGuard no_gradients;
  for (const auto& optimizer : {sgd({.lr = 1, .weight_decay = 1}), adamw({.lr = 1})}) {
    optimizer->bind(named(all));
    optimizer->step({});
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(all[i].equal(before[i]));
  }
}

TEST(OptimizerTest, InvalidOptionsAreRefused) {
  for (const SgdOptions& options :
       {SgdOptions{-1, 0, 0, false}, SgdOptions{1, -1, 0, false}, SgdOptions{1, 0, -1, false},
        SgdOptions{1, 0, 0, true}, SgdOptions{INFINITY, 0, 0, false},
        SgdOptions{1, 0, INFINITY, false}})
    EXPECT_THAT(thrown_by([&] { sgd(options); }), HasSubstr("Refused: sgd: "));
  for (const AdamWOptions& options :
       {AdamWOptions{-1, 0.9, 0.9, 0, 0}, AdamWOptions{1, 1, 0.9, 0, 0},
        AdamWOptions{1, 0, -1, 0, 0}, AdamWOptions{1, 0, 0, -1, 0}, AdamWOptions{1, 0, 0, 0, -1},
        AdamWOptions{INFINITY, 0, 0, 0, 0}, AdamWOptions{1, 0, 0, 0, INFINITY}})
    EXPECT_THAT(thrown_by([&] { adamw(options); }), HasSubstr("Refused: adamw: "));
}

}  // namespace
}  // namespace slipstream
