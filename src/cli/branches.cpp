#include <ATen/ops/stack.h>
#include <torch/nn/modules/conv.h>

#include "cli/classifier.h"
#include "cli/input.h"
#include "cli/option_lists.h"
#include "cli/workloads.h"
#include "datasets/with_cost.h"
#include "engine/step_costs.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/engine/fork_join.h"

namespace slipstream {
namespace {

constexpr std::int64_t kChannels = 64;

Classifier classifier(const Options& options) {
  return Classifier(count_encoder_levels(options.integer("image-size"), "branches"),
                    options.integer("classes"));
}

/// Concatenates two convolutions of one image, and applies a linear layer to the means of the
/// channels.
struct TwoBranchesImpl : torch::nn::Module {
  explicit TwoBranchesImpl(const Options& options)
      : fork(register_module("fork", ForkJoin(std::vector<ModuleRef>{convolution(), convolution()},
                                              fork_mode_named(options.text("fork"))))),
        head(register_module("head",
                             torch::nn::Linear(2 * kChannels, options.integer("classes")))) {}

  at::Tensor forward(const at::Tensor& images) {
    return head->forward(fork->forward(images.to(at::kFloat)).mean({2, 3}));
  }

  static torch::nn::Conv2d convolution() {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(3, kChannels, 3).padding(1));
  }

  ForkJoin fork;
  torch::nn::Linear head;
};
TORCH_MODULE(TwoBranches);

ForkJoin make_ensemble(const Options& options) {
  std::vector<ModuleRef> members;
  const std::int64_t count = options.integer("members");
  for (std::int64_t i = 0; i < count; ++i) members.emplace_back(classifier(options));
  return ForkJoin(std::move(members), fork_mode_named(options.text("fork")),
                  [](const std::vector<at::Tensor>& outputs) { return at::stack(outputs); });
}

/// Uses a separate cross entropy for each member, so that it learns as it would alone. The reported
/// loss is their mean.
Loss ensemble_loss() {
  return {"image", [](const at::Tensor& outputs, const Batch& batch) {
            std::vector<at::Tensor> losses, gradients, correct;
            std::int64_t labels = 0;
            for (const at::Tensor& output : outputs.detach().unbind()) {
              LossValue value = cross_entropy_value(output, batch.at("label"));
              losses.push_back(value.loss);
              gradients.push_back(value.gradient);
              correct.push_back(value.correct);
              labels += value.labels;
            }
            return LossValue{at::stack(losses).mean(), at::stack(gradients),
                             at::stack(correct).sum(), labels};
          }};
}

Pipeline loading(const Options& options) {
  SyntheticCosts costs;
  costs.read.sleep_s = options.number("load-ms") * 1e-3 / static_cast<double>(options.batch_size);
  const auto data = with_cost(synthetic_classification(make_synthetic_options(options)), costs);
  return with_costs(declare_input(data, options)
                        .train("model", classifier(options), make_optimizer(options),
                               cross_entropy("image", "label")),
                    {.train_s = options.number("step-ms") * 1e-3});
}

OptionList own_options() {
  const OptionCheck milliseconds = within(0, 10'000);
  return {
      {"mode", "What runs at the same time: load, branches or ensemble", "",
       one_of({"load", "branches", "ensemble"})},
      {"fork",
       "Streams of the branches: streams (one for each), one-stream, or auto (the faster one)",
       "auto", one_of({"auto", "streams", "one-stream"})},
      {"members", "Number of models, with --mode ensemble", 3, within(1, 1024)},
      {"load-ms", "Time to load a batch in milliseconds, with --mode load", 100.0, milliseconds},
      {"step-ms", "Additional time of each step in milliseconds, with --mode load", 200.0,
       milliseconds}};
}

}  // namespace

OptionList options_of_branches() {
  return own_options() +
         OptionList{classes_option(),
                    image_size_option("Height and width of the images, a power of two")} +
         optimizer_options();
}

Pipeline branches(Options& options) {
  const std::string mode = options.text("mode");
  if (mode.empty()) throw Refused("branches: give --mode load, branches or ensemble");
  if (options.integer("classes") < 2) throw Refused("branches needs at least 2 classes");
  if (options.batch_size == 0) throw Refused("branches: the batch size must be at least 1");
  if (mode == "load") return loading(options);
  auto input = declare_input(synthetic_classification(make_synthetic_options(options)), options);
  if (mode == "branches")
    return std::move(input).train("model", TwoBranches(options), make_optimizer(options),
                                  cross_entropy("image", "label"));
  return std::move(input).train("members", make_ensemble(options), make_optimizer(options),
                                ensemble_loss());
}

}  // namespace slipstream
