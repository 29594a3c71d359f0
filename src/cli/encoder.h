#pragma once

#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <string>
#include <vector>

namespace slipstream {

inline constexpr std::int64_t kFirstChannels = 16;

/// Returns how many times an image of this height and width is halved until it is one pixel. Throws
/// Refused, naming `workload`, if the size is not a power of two from 2 to 1024.
std::int64_t count_encoder_levels(std::int64_t image_size, const std::string& workload);

/// Converts uint8 images to float, applies one convolution, and then halves the size `levels` times
/// down to one pixel, each time doubling the number of channels.
struct EncoderImpl : torch::nn::Module {
  explicit EncoderImpl(std::int64_t levels);

  at::Tensor forward(const at::Tensor& images);

  std::vector<torch::nn::Conv2d> layers;

 private:
  void add(const torch::nn::Conv2dOptions& options);
};
TORCH_MODULE(Encoder);

}  // namespace slipstream
