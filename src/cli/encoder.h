#pragma once

#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <string>
#include <vector>

namespace slipstream {

inline constexpr std::int64_t kFirstChannels = 16;

/// How often an image of this height and width halves until it is one pixel. Throws Refused, naming
/// `workload`, for what is no power of two from 2 to 1024.
std::int64_t count_encoder_levels(std::int64_t image_size, const std::string& workload);

/// uint8 images -> float, then one convolution and `levels` halvings down to one pixel, channels
/// doubling.
struct EncoderImpl : torch::nn::Module {
  explicit EncoderImpl(std::int64_t levels);

  at::Tensor forward(const at::Tensor& images);

  std::vector<torch::nn::Conv2d> layers;

 private:
  void add(const torch::nn::Conv2dOptions& options);
};
TORCH_MODULE(Encoder);

}  // namespace slipstream
