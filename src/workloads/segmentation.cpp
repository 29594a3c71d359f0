#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/cudnn_convolution_relu.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include "slipstream/resize.h"
#include "slipstream/workload.h"

namespace slipstream {
namespace {

constexpr std::int64_t kFirstChannels = 16;

std::int64_t levels_of(std::int64_t image_size) {
  std::int64_t levels = 0;
  while ((std::int64_t{1} << levels) < image_size) ++levels;
  if (image_size < 2 || (std::int64_t{1} << levels) != image_size || image_size > 1024)
    throw Refused("image size " + std::to_string(image_size) +
                  ": segmentation takes a power of two from 2 to 1024");
  return levels;
}

/// uint8 images -> float, then one convolution and `levels` halvings down to one pixel, channels
/// doubling.
struct EncoderImpl : torch::nn::Module {
  explicit EncoderImpl(std::int64_t levels) {
    add(torch::nn::Conv2dOptions(3, kFirstChannels, 1));
    for (std::int64_t level = 0; level < levels; ++level)
      add(torch::nn::Conv2dOptions(kFirstChannels << level, kFirstChannels << (level + 1), 2)
              .stride(2));
  }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = images.to(at::kFloat);
    for (std::size_t i = 0; i + 1 < layers.size(); ++i) x = convolve_and_rectify(x, layers[i]);
    return layers.back()->forward(x);
  }

  std::vector<torch::nn::Conv2d> layers;

 private:
  void add(const torch::nn::Conv2dOptions& options) {
    layers.push_back(
        register_module("conv" + std::to_string(layers.size()), torch::nn::Conv2d(options)));
  }

  /// On a GPU one cuDNN call, which does not promise deterministic algorithms.
  static at::Tensor convolve_and_rectify(const at::Tensor& x, torch::nn::Conv2d& layer) {
    const bool fused = x.is_cuda() && !at::globalContext().deterministicAlgorithms() &&
                       !at::autocast::is_autocast_enabled(at::kCUDA);
    if (!fused) return at::relu(layer->forward(x));
    const std::int64_t stride = layer->options.stride()->at(0);
    return at::cudnn_convolution_relu(x, layer->weight, layer->bias, {stride, stride}, {0, 0},
                                      {1, 1}, 1);
  }
};
TORCH_MODULE(Encoder);

struct DecoderImpl : torch::nn::Module {
  DecoderImpl(std::int64_t levels, std::int64_t classes) {
    for (std::int64_t level = levels; level > 0; --level) {
      const std::int64_t channels = kFirstChannels << (level - 1);
      layers->push_back(torch::nn::ConvTranspose2d(
          torch::nn::ConvTranspose2dOptions(channels * 2, channels, 2).stride(2)));
      layers->push_back(torch::nn::ReLU());
    }
    layers->push_back(
        torch::nn::Conv2d(torch::nn::Conv2dOptions(kFirstChannels, classes, 3).padding(1)));
    register_module("layers", layers);
  }

  at::Tensor forward(const at::Tensor& features) { return layers->forward(features); }

  torch::nn::Sequential layers;
};
TORCH_MODULE(Decoder);

std::shared_ptr<const Dataset> data_of(const Options& options) {
  if (options.data != "synthetic") return segmentation_folder(options.data, options.classes);
  SyntheticOptions synthetic;
  synthetic.size = options.image_size;
  synthetic.classes = options.classes;
  synthetic.seed = options.seed;
  return synthetic_segmentation(synthetic);
}

Pipeline segmentation(const Options& options) {
  if (options.classes < 2 || options.classes > 256)
    throw Refused("segmentation takes 2 to 256 classes, not " + std::to_string(options.classes));
  const std::int64_t levels = levels_of(options.image_size);
  Encoder encoder(levels);
  Decoder decoder(levels, options.classes);
  freeze(*encoder);
  return pipeline(data_of(options), {.batch_size = options.batch_size, .seed = options.seed})
      .transform("resize", Resize{options.image_size, options.image_size})
      .stage("encoder", frozen(encoder, "image", "features"))
      .train("decoder", decoder, make_optimizer(options), cross_entropy("features", "label"));
}

}  // namespace

std::vector<Workload> built_in_workloads() { return {{"segmentation", segmentation}}; }

}  // namespace slipstream
