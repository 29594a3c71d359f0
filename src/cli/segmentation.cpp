#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include "cli/encoder.h"
#include "cli/input.h"
#include "cli/workloads.h"
#include "datasets/open_dataset.h"
#include "slipstream/cli/workload.h"
#include "slipstream/datasets/datasets.h"

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

std::shared_ptr<const Dataset> open_masked_data(const Options& options) {
  if (is_synthetic(options)) return synthetic_segmentation(make_synthetic_options(options));
  if (auto images = open_to_predict(options, true)) return images;
  std::vector<std::string> names;
  if (options.needs_labels) names = options.class_names;
  if (const std::string given = options.text("classes-from"); !given.empty())
    names = class_names_from(given);
  return open_dataset_of_masks(options.text("data"), options.integer("classes"), names);
}

void require_masks(const Dataset& data, const Options& options) {
  if (!options.needs_labels || has_labels(data, FieldKind::mask)) return;
  throw Refused("segmentation needs masks, a class number for each pixel, as its field 'label'; " +
                name_of_data(options) +
                " has none: use classification if each image has one class");
}

void require_class_count(std::int64_t classes) {
  if (classes < 2 || classes > 256)
    throw Refused("segmentation needs 2 to 256 classes, not " + std::to_string(classes));
}

/// Returns the number of class names, and sets the option to it; without names, that of the
/// options.
std::int64_t class_count(const Dataset& data, Options& options) {
  const std::int64_t asked = options.integer("classes");
  const auto named = static_cast<std::int64_t>(data.class_names().size());
  if (named == 0)
    return has_labels(data, FieldKind::mask) ? asked : classes_without_labels(data, options);
  require_class_count(named);
  if (options.is_given("classes") && asked != named)
    throw Refused("--classes " + std::to_string(asked) + ": " + std::to_string(named) +
                  " classes have names; leave --classes out");
  options.set("classes", named);
  return named;
}

}  // namespace

Pipeline segmentation(Options& options) {
  require_class_count(options.integer("classes"));
  take_size_of_transforms(options);
  const std::int64_t levels = count_encoder_levels(options.integer("image-size"), "segmentation");
  const auto data = open_masked_data(options);
  require_masks(*data, options);
  Encoder encoder(levels);
  const std::int64_t classes = class_count(*data, options);
  Decoder decoder(levels, classes);
  freeze(*encoder);
  return declare_input(data, options)
      .stage("encoder", frozen(encoder, "image", "features"))
      .train("decoder", decoder, make_optimizer(options), cross_entropy("features", "label"))
      .metric(mean_iou("label", classes));
}

}  // namespace slipstream
