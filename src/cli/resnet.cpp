#include "cli/resnet.h"

#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/relu.h>

namespace slipstream {
namespace {

torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t size,
                              std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

}  // namespace

ResidualBlockImpl::ResidualBlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
    : conv1(register_module("conv1", convolution(in, out, 3, stride))),
      conv2(register_module("conv2", convolution(out, out, 3, 1))),
      norm1(register_module("norm1", torch::nn::BatchNorm2d(out))),
      norm2(register_module("norm2", torch::nn::BatchNorm2d(out))) {
  if (in == out && stride == 1) return;
  shortcut = register_module("shortcut", convolution(in, out, 1, stride));
  shortcut_norm = register_module("shortcut_norm", torch::nn::BatchNorm2d(out));
}

at::Tensor ResidualBlockImpl::forward(const at::Tensor& x) {
  const at::Tensor around = shortcut.is_empty() ? x : shortcut_norm(shortcut(x));
  return at::relu(norm2(conv2(at::relu(norm1(conv1(x))))) + around);
}

ResNet18Impl::ResNet18Impl(std::int64_t classes)
    : conv(register_module("conv", convolution(3, 64, 7, 2))),
      norm(register_module("norm", torch::nn::BatchNorm2d(64))),
      head(nullptr) {
  std::int64_t channels = 64;
  for (const std::int64_t out : {64, 128, 256, 512}) {
    blocks->push_back(ResidualBlock(channels, out, out == 64 ? 1 : 2));
    blocks->push_back(ResidualBlock(out, out, 1));
    channels = out;
  }
  register_module("blocks", blocks);
  head = register_module("head", torch::nn::Linear(channels, classes));
}

at::Tensor ResNet18Impl::forward(const at::Tensor& images) {
  const at::Tensor first = at::relu(norm(conv(images)));
  const at::Tensor pooled = at::avg_pool2d(first, {3, 3}, {2, 2}, {1, 1});
  return head(blocks->forward(pooled).mean({2, 3}));
}

}  // namespace slipstream
