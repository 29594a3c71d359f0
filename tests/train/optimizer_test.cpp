#include "slipstream/train/optimizer.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "slipstream/core/error.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

std::vector<at::Tensor> parameters() {
  at::manual_seed(11);
  return {at::randn({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(true),
          at::randn({5}).requires_grad_(true), at::randn({3, 7}).requires_grad_(true)};
}

/// Gradients of step `step`; the last parameter has none in every fourth step.
void set_gradients(const std::vector<at::Tensor>& parameters, int step) {
  at::manual_seed(static_cast<std::uint64_t>(100 + step));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor gradient = at::zeros_like(parameters[i]).copy_(at::randn(parameters[i].sizes()));
    const bool none = i == 2 && step % 4 == 3;
    parameters[i].mutable_grad() = none ? at::Tensor() : gradient;
  }
}

void expect_equal_courses(Optimizer& ours, torch::optim::Optimizer& theirs,
                          const std::vector<at::Tensor>& our_parameters,
                          const std::vector<at::Tensor>& their_parameters) {
  for (int step = 0; step < 20; ++step) {
    set_gradients(our_parameters, step);
    set_gradients(their_parameters, step);
    {
      const at::NoGradGuard no_gradients;
      ours.step();
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
    optimizer->bind(ours);
    torch::optim::SGD reference(theirs, torch::optim::SGDOptions(options.lr)
                                            .momentum(options.momentum)
                                            .weight_decay(options.weight_decay)
                                            .nesterov(options.nesterov));
    expect_equal_courses(*optimizer, reference, ours, theirs);
    EXPECT_EQ(optimizer->state().size(), options.momentum > 0 ? 3U : 0U);
  }
}

TEST(AdamWTest, FollowsPyTorch) {
  for (const AdamWOptions& options : {AdamWOptions{}, AdamWOptions{0.01, 0.8, 0.95, 1e-6, 0},
                                      AdamWOptions{0.02, 0, 0.9, 1e-8, 0.1}}) {
    const auto ours = parameters(), theirs = parameters();
    const auto optimizer = adamw(options);
    optimizer->bind(ours);
    torch::optim::AdamW reference(theirs, torch::optim::AdamWOptions(options.lr)
                                              .betas({options.betas[0], options.betas[1]})
                                              .eps(options.eps)
                                              .weight_decay(options.weight_decay));
    expect_equal_courses(*optimizer, reference, ours, theirs);
    EXPECT_EQ(optimizer->state().size(), 9U);
  }
}

TEST(OptimizerTest, BindStartsAnew) {
  const auto first = parameters(), second = parameters();
  const auto used = sgd({.lr = 0.1, .momentum = 0.9}), fresh = sgd({.lr = 0.1, .momentum = 0.9});
  const at::NoGradGuard no_gradients;
  used->bind(first);
  set_gradients(first, 0);
  used->step();
  const auto again = parameters();
  used->bind(again);
  fresh->bind(second);
  set_gradients(again, 1);
  set_gradients(second, 1);
  used->step();
  fresh->step();
  for (std::size_t i = 0; i < again.size(); ++i) EXPECT_TRUE(again[i].equal(second[i]));
}

TEST(OptimizerTest, StateIsTheTensorsThemselves) {
  const auto all = parameters();
  const auto optimizer = adamw({});
  const at::NoGradGuard no_gradients;
  optimizer->bind(all);
  const std::vector<at::Tensor> state = optimizer->state();
  set_gradients(all, 0);
  optimizer->step();
  EXPECT_GT(state[0].abs().sum().item<double>(), 0);
  EXPECT_EQ(state.back().item<float>(), 1);
}

TEST(OptimizerTest, NoGradientsNoStep) {
  const auto all = parameters(), before = parameters();
  const at::NoGradGuard no_gradients;
  for (const auto& optimizer : {sgd({.lr = 1, .weight_decay = 1}), adamw({.lr = 1})}) {
    optimizer->bind(all);
    optimizer->step();
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(all[i].equal(before[i]));
  }
}

TEST(OptimizerTest, RefusesOptionsThatMakeNoSense) {
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
