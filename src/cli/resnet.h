#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace slipstream {

/// Adds the result of two 3 x 3 convolutions to the input, or to a 1 x 1 convolution of the input
/// if the number of channels or the size changes.
struct ResidualBlockImpl : torch::nn::Module {
  ResidualBlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride);

  at::Tensor forward(const at::Tensor& x);

  torch::nn::Conv2d conv1, conv2;
  torch::nn::BatchNorm2d norm1, norm2;
  torch::nn::Conv2d shortcut = nullptr;
  torch::nn::BatchNorm2d shortcut_norm = nullptr;
};
TORCH_MODULE(ResidualBlock);

/// ResNet-18 (He et al., "Deep residual learning for image recognition", CVPR 2016) for float
/// images of any size from 8 x 8. After the first convolution it pools 3 x 3 values by their mean,
/// not their maximum, because the backward pass of that is deterministic on a GPU.
struct ResNet18Impl : torch::nn::Module {
  explicit ResNet18Impl(std::int64_t classes);

  at::Tensor forward(const at::Tensor& images);

  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d norm;
  torch::nn::Sequential blocks;
  torch::nn::Linear head;
};
TORCH_MODULE(ResNet18);

}  // namespace slipstream
