#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <cstdint>
#include <vector>

namespace slipstream {

/// The kind of a block. `basic`: two 3 x 3 convolutions. `bottleneck`: a 1 x 1, a 3 x 3 and a 1 x 1
/// convolution, the last with four times as many channels. The first 3 x 3 convolution has the
/// stride.
enum class BlockKind : std::uint8_t { basic, bottleneck };

/// The convolutions of a block, each with a BatchNorm. Adds their result to the input, or to a 1 x
/// 1 convolution of the input if the number of channels or the size changes.
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
  std::array<std::int64_t, 4> blocks;  ///< number of blocks in layer1 to layer4
};
inline constexpr ResNetLayout kResNet18{BlockKind::basic, {2, 2, 2, 2}};
inline constexpr ResNetLayout kResNet50{BlockKind::bottleneck, {3, 4, 6, 3}};

/// A residual network (He et al., "Deep residual learning for image recognition", CVPR 2016) with
/// the layers, the names and shapes of parameters and buffers, and the initial weights of
/// torchvision's resnet18 and resnet50 (v1.5: a bottleneck's stride is in its 3 x 3 convolution).
/// The input is N x 3 x H x W, of any size and in any memory format: uint8, which is divided by
/// 255, or float. The result is N x classes floats. Runs on the current stream and does not
/// synchronize. In training, BatchNorm needs more than one value per channel: at least two images
/// if both sides are at most 32.
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
