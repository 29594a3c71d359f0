#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace slipstream {

/// Two 3 x 3 convolutions and, around them, the input itself, or a 1 x 1 convolution of it where
/// the number of channels or the size changes.
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
/// images of any size from 8 x 8. It takes the mean, not the largest, of 3 x 3 values behind the
/// first convolution: the way back is then deterministic on a GPU.
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
