#include "cli/torchvision_resnet.h"

#include <ATen/ops/max_pool2d.h>
#include <torch/nn/init.h>

#include <string>

namespace slipstream {
namespace {

constexpr std::int64_t kStemChannels = 64;
constexpr std::int64_t kBottleneckFactor = 4;

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t size,
                              std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

std::int64_t channels_behind(BlockKind kind, std::int64_t width) {
  return kind == BlockKind::basic ? width : kBottleneckFactor * width;
}

at::Tensor as_floats(const at::Tensor& images) {
  return images.scalar_type() == at::kByte ? images.to(at::kFloat).div_(255) : images;
}

void initialize(torch::nn::Module& network) {
  for (const auto& module : network.modules(false))
    if (auto* each = module->as<torch::nn::Conv2d>())
      torch::nn::init::kaiming_normal_(each->weight, 0, torch::kFanOut, torch::kReLU);
}

}  // namespace

TorchvisionBlockImpl::TorchvisionBlockImpl(BlockKind kind, std::int64_t in, std::int64_t width,
                                           std::int64_t stride) {
  const std::int64_t out = channels_behind(kind, width);
  if (kind == BlockKind::basic) {
    add(in, width, 3, stride);
    add(width, width, 3, 1);
  } else {
    add(in, width, 1, 1);
    add(width, width, 3, stride);
    add(width, out, 1, 1);
  }
  if (in == out && stride == 1) return;
  downsample = register_module("downsample", torch::nn::Sequential(convolution(in, out, 1, stride),
                                                                   torch::nn::BatchNorm2d(out)));
}

void TorchvisionBlockImpl::add(std::int64_t in, std::int64_t out, std::int64_t size,
                               std::int64_t stride) {
  const std::string number = std::to_string(convolutions.size() + 1);
  convolutions.push_back(register_module("conv" + number, convolution(in, out, size, stride)));
  norms.push_back(register_module("bn" + number, torch::nn::BatchNorm2d(out)));
}

at::Tensor TorchvisionBlockImpl::forward(const at::Tensor& x) {
  at::Tensor result = x;
  for (std::size_t i = 0; i + 1 < convolutions.size(); ++i)
    result = norms[i](convolutions[i](result)).relu_();
  result = norms.back()(convolutions.back()(result));
  return result.add_(downsample.is_empty() ? x : downsample->forward(x)).relu_();
}

TorchvisionResNetImpl::TorchvisionResNetImpl(const ResNetLayout& layout, std::int64_t classes)
    : conv1(register_module("conv1", convolution(3, kStemChannels, 7, 2))),
      bn1(register_module("bn1", torch::nn::BatchNorm2d(kStemChannels))),
      fc(nullptr) {
  std::int64_t channels = kStemChannels;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::int64_t width = kStemChannels << i;
    for (std::int64_t block = 0; block < layout.blocks[i]; ++block) {
      const std::int64_t stride = i > 0 && block == 0 ? 2 : 1;
      layers[i]->push_back(TorchvisionBlock(layout.block, channels, width, stride));
      channels = channels_behind(layout.block, width);
    }
    register_module("layer" + std::to_string(i + 1), layers[i]);
  }
  fc = register_module("fc", torch::nn::Linear(channels, classes));
  initialize(*this);
}

at::Tensor TorchvisionResNetImpl::forward(const at::Tensor& images) {
  at::Tensor x = bn1(conv1(as_floats(images))).relu_();
  x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
  for (torch::nn::Sequential& layer : layers) x = layer->forward(x);
  return fc(x.mean({2, 3}));
}

}  // namespace slipstream
