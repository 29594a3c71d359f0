#include <ATen/autocast_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "engine/context_parts.h"
#include "engine/current_lane.h"
#include "engine/engine.h"
#include "engine/numerics_scope.h"
#include "slipstream/engine/fork_join.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

using Branches = std::vector<ModuleRef>;

struct FunctionImpl : torch::nn::Module {
  explicit FunctionImpl(Forward function) : call(std::move(function)) {}
  at::Tensor forward(const at::Tensor& x) { return call(x); }
  Forward call;
};
TORCH_MODULE(Function);

/// Compares the output and every gradient of a fork with those of calling its branches one by one.
class ForkAutogradTest : public EngineTest {
 protected:
  static at::Tensor random(at::IntArrayRef sizes) {
    return at::randn(sizes, at::TensorOptions(c10::Device(kDevice)));
  }
  static torch::nn::Linear linear(std::int64_t outputs) {
    torch::nn::Linear module(3, outputs);
    module->to(c10::Device(kDevice));
    return module;
  }
  static ModuleRef identity() {
    return Function([](const at::Tensor& x) { return x; });
  }
  static ModuleRef view() {
    return Function([](const at::Tensor& x) { return x.narrow(1, 1, 2); });
  }
  static ModuleRef constant() {
    return Function([](const at::Tensor& x) { return at::ones_like(x.detach()); });
  }

  /// Returns the output of `forward`, the gradient of its input, and those of the branches'
  /// parameters.
  static std::vector<at::Tensor> compute_output_and_gradients(const Forward& forward,
                                                              const Branches& branches,
                                                              const at::Tensor& data) {
    const at::Tensor x = data.clone().requires_grad_();
    at::manual_seed(3);
    const at::Tensor y = forward(x.mul(2));
    y.square().sum().backward();
    std::vector<at::Tensor> made = {y, x.grad()};
    for (const ModuleRef& branch : branches)
      for (const at::Tensor& parameter : branch.module->parameters()) {
        made.push_back(parameter.grad());
        parameter.mutable_grad().reset();
      }
    return made;
  }

  static void expect_matches_calling_branches(const Branches& branches) {
    const at::Tensor data = random({5, 3});
    const Forward call = [&](const at::Tensor& x) {
      std::vector<at::Tensor> results;
      for (const ModuleRef& branch : branches) results.push_back(branch.forward(x));
      return at::cat(results, 1);
    };
    const auto called = compute_output_and_gradients(call, branches, data);
    for (const ForkMode mode : {ForkMode::streams, ForkMode::one_stream, ForkMode::automatic}) {
      ForkJoin fork(branches, mode);
      const auto forked = compute_output_and_gradients(
          [&](const at::Tensor& x) { return fork->forward(x); }, branches, data);
      ASSERT_EQ(forked.size(), called.size());
      for (std::size_t i = 0; i < called.size(); ++i)
        EXPECT_EQ(called[i].defined(), forked[i].defined()) << i;
      for (std::size_t i = 0; i < called.size(); ++i)
        if (called[i].defined()) {
          EXPECT_TRUE(same_bits(forked[i], called[i])) << i;
        }
    }
  }
};

TEST_F(ForkAutogradTest, OutputAndGradientsMatchCallingTheBranches) {
  const torch::nn::Linear shared = linear(2);
  const std::vector<Branches> all = {
      {linear(2)},
      {linear(2), linear(4), linear(3)},
      {linear(2), identity()},
      {identity(), view(), identity()},
      {constant(), linear(2)},
      {shared, linear(2), shared},
      {torch::nn::Dropout(0.5), linear(3), torch::nn::Dropout(0.5)},
      {ForkJoin(Branches{linear(2), constant()}, ForkMode::streams), linear(2)}};
  for (const Branches& branches : all) {
    SCOPED_TRACE("branches " + std::to_string(&branches - all.data()));
    expect_matches_calling_branches(branches);  // outside of a run, on the current stream
    const CurrentLane current(context(), get_lane(context(), "train", 2));
    expect_matches_calling_branches(branches);
  }
}

TEST_F(ForkAutogradTest, WeightSharedWithStageMatchesUncachedAutocast) {
  const CurrentLane current(context(), get_lane(context(), "train", 2));
  const StageScope scope(exact(Precision::bf16), c10::Device(kDevice), "train");
  torch::nn::Linear weight = linear(3);
  const Branches branches = {weight, linear(2)};
  ForkJoin fork(branches, ForkMode::streams);
  const at::Tensor data = random({5, 3});
  const auto forked = compute_output_and_gradients(
      [&](const at::Tensor& x) { return fork->forward(weight->forward(x)); }, branches, data);
  at::autocast::set_autocast_cache_enabled(false);
  const auto called = compute_output_and_gradients(
      [&](const at::Tensor& x) {
        const at::Tensor y = weight->forward(x);
        return at::cat({branches[0].forward(y), branches[1].forward(y)}, 1);
      },
      branches, data);
  at::autocast::set_autocast_cache_enabled(true);
  EXPECT_EQ(forked[0].scalar_type(), at::kBFloat16);
  for (std::size_t i = 0; i < called.size(); ++i) EXPECT_TRUE(same_bits(forked[i], called[i])) << i;
}

TEST_F(ForkAutogradTest, BranchUnusedByJoinGetsNoGradient) {
  const CurrentLane current(context(), get_lane(context(), "train", 2));
  const torch::nn::Linear in = linear(2), out = linear(2);
  ForkJoin fork(Branches{out, in}, ForkMode::streams,
                [](const std::vector<at::Tensor>& outputs) { return outputs[1]; });
  fork->forward(random({5, 3})).sum().backward();
  EXPECT_TRUE(in->weight.grad().defined());
  EXPECT_FALSE(out->weight.grad().defined());
}

TEST_F(ForkAutogradTest, BranchThatWritesIntoItsInputThrows) {
  const ModuleRef writes = Function([](const at::Tensor& x) { return at::Tensor(x).mul_(2); });
  ForkJoin fork(Branches{linear(2), writes});
  EXPECT_THAT(
      thrown_by([&] {
        fork->forward(random({2, 3}));
      }),
      AllOf(StartsWith("Error: ForkJoin: branch 1 writes into its input"), HasSubstr("a copy")));
}

TEST_F(ForkAutogradTest, BranchThatReadsAnotherTensorRequiringGradThrows) {
  at::Tensor other = random({5, 3}).requires_grad_().mul(2);
  const ModuleRef reads = Function([&](const at::Tensor& x) { return x.add(other); });
  const ModuleRef keeps = Function([&](const at::Tensor& x) { return other = x.mul(3); });
  const at::Tensor x = random({5, 3}).requires_grad_();
  const auto error = AllOf(StartsWith("Error: ForkJoin: branch 1 reads another tensor"),
                           HasSubstr("part of the input"));
  ForkJoin of_the_stage(Branches{linear(2), reads});
  EXPECT_THAT(thrown_by([&] { of_the_stage->forward(x); }), error);
  ForkJoin of_a_branch(Branches{keeps, reads});
  EXPECT_THAT(thrown_by([&] { of_a_branch->forward(x); }), error);
  const at::NoGradGuard no_gradients;
  other = random({5, 3});
  EXPECT_EQ(of_the_stage->forward(x).size(1), 5);
}

TEST_F(ForkAutogradTest, AutogradGradCreateGraphAndSecondBackwardThrow) {
  ForkJoin fork(Branches{linear(2), linear(2)});
  const at::Tensor x = random({5, 3}).requires_grad_();
  const auto sum = [&] { return fork->forward(x).square().sum(); };
  const auto error =
      AllOf(StartsWith("Error: ForkJoin: "), HasSubstr("not from torch::autograd::grad()"));
  EXPECT_THAT(thrown_by([&] { torch::autograd::grad({sum()}, {x}); }), error);
  EXPECT_THAT(thrown_by([&] { sum().backward({}, std::nullopt, /*create_graph=*/true); }), error);
  const at::Tensor once = fork->forward(x).sum();
  once.backward();
  EXPECT_THAT(thrown_by([&] { once.backward(); }), HasSubstr("second time"));
}

}  // namespace
}  // namespace slipstream::test
