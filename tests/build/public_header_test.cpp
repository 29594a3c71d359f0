#include "slipstream/slipstream.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

namespace {

using namespace slipstream;

struct FlatImpl : torch::nn::Module {
  FlatImpl() : linear(8 * 8 * 3, 4) { register_module("linear", linear); }
  at::Tensor forward(const at::Tensor& images) { return linear->forward(images.flatten(1)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Flat);

void scale(Batch& batch) { batch.set("input", batch.at("image").to(at::kFloat).div(255)); }

TEST(PublicHeader, SufficesForTrainingProgram) {
  SampleOptions options;
  options.batch_size = 4;
  Pipeline declared =
      pipeline(synthetic_classification({.samples = 16, .size = 12, .classes = 4}), options)
          .transform("resize", Resize{{8, 8}})
          .stage("scale", frozen(scale))
          .train("classify", Flat(), sgd({.lr = 1e-3}), cross_entropy("input", "label"));
  Context context("cpu");
  const Plan plan = placed_plan(declared, "serial", "cpu", context.kind(), {}, {});
  Trainer trainer(std::move(declared), context, plan.numerics);
  RunOptions steps;
  steps.steps = 2;
  EXPECT_EQ(trainer.run(plan, steps).losses.size(), 2U);
}

}  // namespace
