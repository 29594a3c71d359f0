#include "engine/forked.h"

#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>

namespace slipstream::test {
namespace {

torch::nn::Conv2d convolution(std::int64_t from, std::int64_t to, std::int64_t kernel) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, kernel).padding((kernel - 1) / 2));
}

struct BranchImpl : torch::nn::Module {
  explicit BranchImpl(std::int64_t channels,
                      std::function<at::Tensor(const at::Tensor&)> result = {})
      : conv(register_module("conv", convolution(channels, 4, 3))), hook(std::move(result)) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = at::dropout(conv->forward(x).relu(), 0.25, is_training());
    return hook ? hook(y) : y;
  }

  torch::nn::Conv2d conv;
  std::function<at::Tensor(const at::Tensor&)> hook;
};
TORCH_MODULE(Branch);

struct ViewImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x.narrow(1, 1, 4); }
};
TORCH_MODULE(View);

/// Calls the branches one after the other if there is no mode.
struct BranchesImpl : torch::nn::Module {
  BranchesImpl(std::optional<ForkMode> mode, const std::vector<ModuleRef>& branches)
      : all(branches),
        is_plain(!mode),
        fork(register_module("fork", ForkJoin(branches, mode.value_or(ForkMode::one_stream)))) {}

  at::Tensor forward(const at::Tensor& x) {
    if (!is_plain) return fork->forward(x);
    std::vector<at::Tensor> results;
    for (const ModuleRef& branch : all) results.push_back(branch.forward(x));
    return at::cat(results, 1);
  }

  std::vector<ModuleRef> all;
  bool is_plain;
  ForkJoin fork;
};
TORCH_MODULE(Branches);

struct EncoderImpl : torch::nn::Module {
  explicit EncoderImpl(std::optional<ForkMode> mode)
      : branches(register_module("branches", Branches(mode, make_two(3)))) {}

  static std::vector<ModuleRef> make_two(std::int64_t channels) {
    return {Branch(channels), Branch(channels)};
  }
  at::Tensor forward(const at::Tensor& images) {
    return branches->forward(images.to(at::kFloat).mul(1.0 / 255));
  }

  Branches branches;
};
TORCH_MODULE(Encoder);

struct DecoderImpl : torch::nn::Module {
  explicit DecoderImpl(const Forked& forked)
      : stem(register_module("stem", convolution(8, 6, 1))),
        branches(register_module("branches", Branches(forked.mode, make_branches(forked)))),
        dropout(register_module("dropout", torch::nn::Dropout(0.25))),
        head(register_module("head", convolution(forked.nested ? 20 : 16, 5, 1))) {}

  static std::vector<ModuleRef> make_branches(const Forked& forked) {
    const Branch middle(6, forked.in_a_branch);
    if (!forked.nested) return {Branch(6), middle, Branch(6), View()};
    const Branches inner(forked.mode, std::vector<ModuleRef>{middle, Branch(6)});
    return {Branch(6), inner, Branch(6), View()};
  }
  at::Tensor forward(const at::Tensor& x) {
    return head->forward(dropout->forward(branches->forward(stem->forward(x))));
  }

  torch::nn::Conv2d stem;
  Branches branches;
  torch::nn::Dropout dropout;
  torch::nn::Conv2d head;
};
TORCH_MODULE(Decoder);

}  // namespace

Pipeline forked_pipeline(const Forked& forked) {
  at::manual_seed(1);
  Encoder encoder(forked.mode);
  freeze(*encoder);
  Decoder decoder(forked);
  SyntheticOptions synthetic;
  synthetic.samples = 64;
  synthetic.size = forked.size;
  synthetic.classes = 5;
  const Loss loss = {"features",
                     [hook = forked.before_loss](const at::Tensor& output, const Batch& batch) {
                       if (hook) hook();
                       return cross_entropy_value(output, batch.at("label"));
                     }};
  return pipeline(synthetic_segmentation(synthetic), {.batch_size = forked.batch_size, .seed = 1})
      .stage("encode", frozen(encoder, "image", "features"))
      .train("train", decoder, sgd({.lr = 0.05, .momentum = 0.9}), loss);
}

}  // namespace slipstream::test
