// Trains a head in C++ on the features of a frozen encoder from Python, which make_encoder.py
// writes.
//   python3 make_encoder.py encoder.pt
//   imported_encoder train head --encoder encoder.pt --data photos --image-size 64
//   imported_encoder bench head --encoder encoder.pt --batch-size 8,32

#include <torch/nn/modules/linear.h>

#include "slipstream/slipstream.h"

namespace {

using namespace slipstream;

/// Opens an AOTInductor package (.pt2) or a TorchScript module.
FrozenStage load_encoder(const std::filesystem::path& file) {
  if (file.extension() == ".pt2") return frozen_aot_inductor(file, {"image"}, {"features"});
  return frozen_torchscript(file, {"image"}, {"features"});
}

std::shared_ptr<const Dataset> open_images(const Options& options) {
  if (options.text("data") != "synthetic") return image_folder(options.text("data"));
  return synthetic_classification({.samples = 256, .size = 64, .classes = 4, .seed = options.seed});
}

std::int64_t find_classes(const Dataset& data) {
  for (const FieldSpec& field : data.fields())
    if (field.name == "label") return field.classes;
  throw Refused("the data have no labels; give a folder with one subfolder per class");
}

Pipeline head(const Options& options) {
  const auto data = open_images(options);
  const std::int64_t side = options.integer("image-size");
  const torch::nn::Linear linear(options.integer("features"), find_classes(*data));
  return pipeline(data, options)
      .transform("resize", Resize{{side, side}})
      .stage("encoder", load_encoder(options.text("encoder")))
      .train("head", linear, make_optimizer(options), cross_entropy("features", "label"))
      .metric(top_k("label", 1));
}

}  // namespace

int main(int argc, char** argv) {
  const OptionList own = {
      {"encoder", "The encoder's file: .pt of TorchScript or .pt2 of AOTInductor", "encoder.pt"},
      {"features", "Number of features that the encoder computes per image", 64, no_less_than(1)},
      {"data", "A folder with one subfolder per class, or synthetic", "synthetic"},
      {"image-size", "Height and width of the images", 64, no_less_than(1)}};
  return slipstream::cli_main(argc, argv, {{"head", head, own + optimizer_options()}});
}
