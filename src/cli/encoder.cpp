#include "cli/encoder.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cudnn_convolution_relu.h>
#include <ATen/ops/relu.h>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

/// Applies a convolution and a ReLU. On a GPU this can be one cuDNN call, which has no gradient and
/// may not be deterministic.
at::Tensor convolve_and_rectify(const at::Tensor& x, torch::nn::Conv2d& layer) {
  const bool fused = x.is_cuda() && !at::GradMode::is_enabled() &&
                     !at::globalContext().deterministicAlgorithms() &&
                     !at::autocast::is_autocast_enabled(at::kCUDA);
  if (!fused) return at::relu(layer->forward(x));
  const std::int64_t stride = layer->options.stride()->at(0);
  return at::cudnn_convolution_relu(x, layer->weight, layer->bias, {stride, stride}, {0, 0}, {1, 1},
                                    1);
}

}  // namespace

std::int64_t count_encoder_levels(std::int64_t image_size, const std::string& workload) {
  std::int64_t levels = 0;
  while ((std::int64_t{1} << levels) < image_size) ++levels;
  if (image_size < 2 || (std::int64_t{1} << levels) != image_size || image_size > 1024)
    throw Refused("image size " + std::to_string(image_size) + ": " + workload +
                  " accepts a power of two from 2 to 1024");
  return levels;
}

EncoderImpl::EncoderImpl(std::int64_t levels) {
  add(torch::nn::Conv2dOptions(3, kFirstChannels, 1));
  for (std::int64_t level = 0; level < levels; ++level)
    add(torch::nn::Conv2dOptions(kFirstChannels << level, kFirstChannels << (level + 1), 2)
            .stride(2));
}

at::Tensor EncoderImpl::forward(const at::Tensor& images) {
  at::Tensor x = images.to(at::kFloat);
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) x = convolve_and_rectify(x, layers[i]);
  return layers.back()->forward(x);
}

void EncoderImpl::add(const torch::nn::Conv2dOptions& options) {
  layers.push_back(
      register_module("conv" + std::to_string(layers.size()), torch::nn::Conv2d(options)));
}

}  // namespace slipstream
