#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <cstdint>
#include <vector>

namespace slipstream {

/// basic: two 3 x 3 convolutions. bottleneck: 1 x 1, 3 x 3 and, to four times as many channels,
/// 1 x 1. The 3 x 3 convolution that comes first has the stride.
enum class BlockKind : std::uint8_t { basic, bottleneck };

/// The convolutions of a block, each with a BatchNorm, and the input, or a 1 x 1 convolution of it
/// where channels or size change, added to their result.
struct TorchvisionBlockImpl : torch::nn::Module {
  TorchvisionBlockImpl(BlockKind kind, std::int64_t in, std::int64_t width, std::int64_t stride);

  at::Tensor forward(const at::Tensor& x);

  std::vector<torch::nn::Conv2d> convolutions;
  std::vector<torch::nn::BatchNorm2d> norms;
  torch::nn::Sequential downsample = nullptr;

 private:
  void add(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride);
};
TORCH_MODULE(TorchvisionBlock);

struct ResNetLayout {
  BlockKind block;
  std::array<std::int64_t, 4> blocks;  ///< of layer1 to layer4
};
inline constexpr ResNetLayout kResNet18{BlockKind::basic, {2, 2, 2, 2}};
inline constexpr ResNetLayout kResNet50{BlockKind::bottleneck, {3, 4, 6, 3}};

/// A residual network (He et al., "Deep residual learning for image recognition", CVPR 2016) with
/// the layers, the names and shapes of parameters and buffers, and the initial weights of
/// torchvision's resnet18 and resnet50 (v1.5: a bottleneck's stride is in its 3 x 3 convolution).
/// Takes images, N x 3 x H x W, of any size and in any memory format, as bytes, which it divides by
/// 255, or as floats. Gives N x classes floats. It does not synchronize. BatchNorm in training
/// needs more than one value a channel: two images or more where both sides are at most 32.
struct TorchvisionResNetImpl : torch::nn::Module {
  TorchvisionResNetImpl(const ResNetLayout& layout, std::int64_t classes);

  at::Tensor forward(const at::Tensor& images);

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  std::array<torch::nn::Sequential, 4> layers;
  torch::nn::Linear fc;
};
TORCH_MODULE(TorchvisionResNet);

}  // namespace slipstream
