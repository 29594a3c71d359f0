#include <ATen/ops/stack.h>
#include <torch/nn/modules/conv.h>

#include <algorithm>

#include "slipstream/datasets.h"
#include "slipstream/fork_join.h"
#include "workloads/classifier.h"
#include "workloads/input.h"
#include "workloads/workloads.h"

namespace slipstream {
namespace {

constexpr std::int64_t kChannels = 64;
constexpr double kMostMs = 10'000;

std::int64_t levels(const Options& options) { return levels_of(options.image_size, "branches"); }

/// Two convolutions of one image, joined, and a linear layer behind the mean of each channel.
struct TwoBranchesImpl : torch::nn::Module {
  explicit TwoBranchesImpl(const Options& options)
      : fork(register_module("fork", ForkJoin(std::vector<ModuleRef>{convolution(), convolution()},
                                              fork_mode_named(options.fork)))),
        head(register_module("head", torch::nn::Linear(2 * kChannels, options.classes))) {}

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

ForkJoin ensemble_of(const Options& options) {
  std::vector<ModuleRef> members;
  for (std::size_t i = 0; i < options.members; ++i)
    members.emplace_back(Classifier(levels(options), options.classes));
  return ForkJoin(std::move(members), fork_mode_named(options.fork),
                  [](const std::vector<at::Tensor>& outputs) { return at::stack(outputs); });
}

/// Each member's own cross entropy, so that it learns what it would alone; their mean is shown.
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
  for (const double ms : {options.load_ms, options.step_ms})
    if (!(ms >= 0 && ms <= kMostMs))
      throw Refused("branches: --load-ms and --step-ms take 0 to 10,000 milliseconds");
  SyntheticCosts costs;
  costs.read.sleep_s = options.load_ms * 1e-3 / static_cast<double>(options.batch_size);
  return declare_input(with_cost(synthetic_classification(synthetic_of(options)), costs), options,
                       {.train_s = options.step_ms * 1e-3})
      .train("model", Classifier(levels(options), options.classes), make_optimizer(options),
             cross_entropy("image", "label"));
}

}  // namespace

Pipeline branches(const Options& options) {
  refuse_options_of_starved(options, "branches");
  const std::vector<std::string> modes = {"load", "branches", "ensemble"};
  if (options.mode.empty()) throw Refused("branches: give --mode load, branches or ensemble");
  if (std::find(modes.begin(), modes.end(), options.mode) == modes.end())
    throw Refused(unknown_name("mode", options.mode, modes));
  if (options.data != "synthetic")
    throw Refused("branches trains on synthetic images alone; leave --data out");
  if (options.classes < 2) throw Refused("branches needs at least 2 classes");
  constexpr std::size_t kMostMembers = 1024;
  if (options.members == 0) throw Refused("branches: an ensemble needs at least one member");
  if (options.members > kMostMembers)
    throw Refused("branches: an ensemble has at most " + std::to_string(kMostMembers) + " members");
  if (options.batch_size == 0) throw Refused("branches: the batch size must be at least 1");
  fork_mode_named(options.fork);
  if (options.mode == "load") return loading(options);
  auto input = declare_input(synthetic_classification(synthetic_of(options)), options);
  if (options.mode == "branches")
    return std::move(input).train("model", TwoBranches(options), make_optimizer(options),
                                  cross_entropy("image", "label"));
  return std::move(input).train("members", ensemble_of(options), make_optimizer(options),
                                ensemble_loss());
}

}  // namespace slipstream
