#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include <filesystem>

#include "slipstream/datasets.h"
#include "slipstream/workload.h"
#include "workloads/encoder.h"
#include "workloads/input.h"
#include "workloads/workloads.h"

namespace slipstream {
namespace {

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
  if (options.text("data") == "synthetic") return synthetic_segmentation(synthetic_of(options));
  const std::filesystem::path path = options.text("data");
  const std::int64_t classes = options.integer("classes");
  std::error_code failed;
  if (std::filesystem::exists(path / "manifest.json", failed))
    return open_dataset(path, classes);  // what `convert` wrote
  return segmentation_folder(path, classes);
}

}  // namespace

Pipeline segmentation(Options& options) {
  const std::int64_t classes = options.integer("classes");
  if (classes < 2 || classes > 256)
    throw Refused("segmentation takes 2 to 256 classes, not " + std::to_string(classes));
  const std::int64_t levels = levels_of(options.integer("image-size"), "segmentation");
  Encoder encoder(levels);
  Decoder decoder(levels, classes);
  freeze(*encoder);
  return declare_input(data_of(options), options)
      .stage("encoder", frozen(encoder, "image", "features"))
      .train("decoder", decoder, make_optimizer(options), cross_entropy("features", "label"));
}

}  // namespace slipstream
