#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "cli/torchvision_resnet.h"
#include "slipstream/cli/workload.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

using Sizes = std::vector<std::int64_t>;

Options options_with(std::int64_t size, const std::string& model = "resnet18") {
  Options options = find_options(built_in_workloads(), "classification");
  options.batch_size = 2;
  options.give("image-size", size);
  options.give("model", model);
  return options;
}

Pipeline make_classification(Options options) {
  return make_pipeline(built_in_workloads(), "classification", options);
}

at::Tensor compute_output(const Pipeline& pipeline, std::int64_t size) {
  const at::NoGradGuard no_gradients;
  Batch batch;
  batch.set("image", at::zeros({2, 3, size, size}, at::kByte));
  return pipeline.train_stage().forward(batch, "image");
}

/// Returns the sizes of the entries of Python's state_dict: parameters and buffers.
std::map<std::string, Sizes> state_sizes(const torch::nn::Module& module) {
  std::map<std::string, Sizes> state;
  for (const auto& each : module.named_parameters()) state[each.key()] = each.value().sizes().vec();
  for (const auto& each : module.named_buffers()) state[each.key()] = each.value().sizes().vec();
  return state;
}

std::int64_t count_of_parameters(const torch::nn::Module& module) {
  std::int64_t total = 0;
  for (const at::Tensor& parameter : module.parameters()) total += parameter.numel();
  return total;
}

TEST(ClassificationTest, DefaultModelIsResNet18AndTakesImagesOfAnySize) {
  EXPECT_EQ(find_options(built_in_workloads(), "classification").text("model"), "resnet18");
  for (const std::int64_t size : {1, 28, 32, 65, 224}) {
    const Pipeline pipeline = make_classification(options_with(size));
    EXPECT_THAT(pipeline.device_steps(), ElementsAre("copy", "model"));
    EXPECT_EQ(compute_output(pipeline, size).sizes(), at::IntArrayRef({2, 10})) << size;
  }
  EXPECT_EQ(compute_output(make_classification(options_with(64, "encoder")), 64).sizes(),
            at::IntArrayRef({2, 10}));
}

TEST(ClassificationTest, ResNet18HasTheStateDictOfTorchvision) {
  TorchvisionResNet model(kResNet18, 1000);
  EXPECT_EQ(count_of_parameters(*model), 11'689'512);
  const auto state = state_sizes(*model);
  EXPECT_EQ(state.size(), 122U);
  EXPECT_EQ(state.at("conv1.weight"), (Sizes{64, 3, 7, 7}));
  EXPECT_EQ(state.at("bn1.running_mean"), (Sizes{64}));
  EXPECT_EQ(state.at("bn1.num_batches_tracked"), Sizes{});
  EXPECT_EQ(state.at("layer1.0.conv1.weight"), (Sizes{64, 64, 3, 3}));
  EXPECT_EQ(state.at("layer1.1.bn2.bias"), (Sizes{64}));
  EXPECT_EQ(state.at("layer2.0.downsample.0.weight"), (Sizes{128, 64, 1, 1}));
  EXPECT_EQ(state.at("layer2.0.downsample.1.running_var"), (Sizes{128}));
  EXPECT_EQ(state.at("layer4.1.conv2.weight"), (Sizes{512, 512, 3, 3}));
  EXPECT_EQ(state.at("fc.weight"), (Sizes{1000, 512}));
  EXPECT_EQ(state.at("fc.bias"), (Sizes{1000}));
  for (const char* absent : {"layer1.0.downsample.0.weight", "conv1.bias", "layer1.0.conv3.weight"})
    EXPECT_EQ(state.count(absent), 0U) << absent;
}

TEST(ClassificationTest, ResNet50HasTheStateDictOfTorchvision) {
  TorchvisionResNet model(kResNet50, 1000);
  EXPECT_EQ(count_of_parameters(*model), 25'557'032);
  const auto state = state_sizes(*model);
  EXPECT_EQ(state.size(), 320U);
  EXPECT_EQ(state.at("layer1.0.conv1.weight"), (Sizes{64, 64, 1, 1}));
  EXPECT_EQ(state.at("layer1.0.conv3.weight"), (Sizes{256, 64, 1, 1}));
  EXPECT_EQ(state.at("layer1.0.downsample.0.weight"), (Sizes{256, 64, 1, 1}));
  EXPECT_EQ(state.at("layer3.5.conv2.weight"), (Sizes{256, 256, 3, 3}));
  EXPECT_EQ(state.at("layer4.2.bn3.running_var"), (Sizes{2048}));
  EXPECT_EQ(state.at("fc.weight"), (Sizes{1000, 2048}));
  const auto block = model->layers[1]->ptr<TorchvisionBlockImpl>(0);
  EXPECT_EQ(block->convolutions[0]->options.stride()->at(0), 1);
  EXPECT_EQ(block->convolutions[1]->options.stride()->at(0), 2);
}

TEST(ClassificationTest, ResNet18InitializesWeightsLikeTorchvision) {
  TorchvisionResNet model(kResNet18, 10);
  for (const auto& each : model->named_parameters()) {
    const at::Tensor& weights = each.value();
    if (weights.dim() != 4) continue;
    const auto fan_out = static_cast<double>(weights.size(0) * weights.size(2) * weights.size(3));
    EXPECT_NEAR(weights.std().item<double>(), std::sqrt(2 / fan_out), 0.1 * std::sqrt(2 / fan_out))
        << each.key();
  }
  EXPECT_TRUE(model->bn1->weight.eq(1).all().item<bool>());
  EXPECT_TRUE(model->bn1->bias.eq(0).all().item<bool>());
}

TEST(ClassificationTest, ByteImagesAreDividedBy255) {
  TorchvisionResNet model(kResNet18, 10);
  model->eval();
  const at::NoGradGuard no_gradients;
  const at::Tensor bytes =
      at::arange(3 * 32 * 32).remainder(256).to(at::kByte).reshape({1, 3, 32, 32});
  EXPECT_TRUE(model->forward(bytes).equal(model->forward(bytes.to(at::kFloat) / 255)));
  EXPECT_FALSE(at::allclose(model->forward(bytes), model->forward(bytes.to(at::kFloat))));
}

TEST(ClassificationTest, ResNetsTakeImagesOfAnySize) {
  for (const ResNetLayout& layout : {kResNet18, kResNet50}) {
    TorchvisionResNet model(layout, 4);
    for (const std::int64_t size : {1, 2, 3, 28, 31, 33}) {
      const std::int64_t batch = size > 32 ? 1 : 2;
      const at::Tensor scores = model->forward(at::rand({batch, 3, size, size}));
      EXPECT_EQ(scores.sizes().vec(), (Sizes{batch, 4})) << size;
      EXPECT_TRUE(scores.isfinite().all().item<bool>());
    }
  }
}

TEST(ClassificationTest, RefusesUnknownModelsAndUnsupportedImageSizes) {
  const auto refusal = [](const auto& make) {
    return thrown_by([&] { make_classification(make()); });
  };
  EXPECT_THAT(refusal([] { return options_with(64, "resnet19"); }),
              AllOf(StartsWith("Refused: --model: "), HasSubstr("did you mean 'resnet18'?"),
                    EndsWith("known: resnet18, resnet50, encoder")));
  EXPECT_THAT(refusal([] { return options_with(224, "encoder"); }),
              AllOf(StartsWith("Refused: "), HasSubstr("--model encoder"),
                    HasSubstr("power of two from 2 to 1024; --model resnet18 accepts any")));
  const auto options_with_batch_of_one = [](std::int64_t size) {
    Options options = options_with(size);
    options.batch_size = 1;
    return options;
  };
  for (const std::int64_t size : {1, 28, 32})
    EXPECT_THAT(refusal([&] { return options_with_batch_of_one(size); }),
                AllOf(StartsWith("Refused: batch size 1: "), HasSubstr("--image-size 33 or more")));
  EXPECT_EQ(refusal([&] { return options_with_batch_of_one(33); }), "nothing");
}

}  // namespace
}  // namespace slipstream
