#include "cli/classifier.h"
#include "cli/input.h"
#include "cli/option_lists.h"
#include "cli/torchvision_resnet.h"
#include "cli/workloads.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/batch_ops.h"

namespace slipstream {
namespace {

/// Factor by which ResNets reduce each side of an image; the smallest result is one pixel.
constexpr std::int64_t kFactorOfResNets = 32;

bool is_encoder(const Options& options) { return options.text("model") == "encoder"; }

std::shared_ptr<const Dataset> open_classification_data(const Options& options) {
  if (!is_synthetic(options)) return open_data(options);
  return synthetic_classification(make_synthetic_options(options));
}

void check_sizes(const Options& options) {
  const std::int64_t size = options.integer("image-size");
  if (is_encoder(options)) {
    try {
      static_cast<void>(count_encoder_levels(size, "classification with --model encoder"));
    } catch (const Refused& refused) {
      throw Refused(std::string(refused.what()) + "; --model resnet18 accepts any size");
    }
    return;
  }
  const std::string model = options.text("model");
  if (size <= kFactorOfResNets && options.batch_size == 1)
    throw Refused("batch size 1: " + model + " normalizes over each batch, whose images of " +
                  std::to_string(size) +
                  " pixels are reduced to one pixel each; give a batch of 2" +
                  " or more, or --image-size " + std::to_string(kFactorOfResNets + 1) + " or more");
}

ModuleRef make_model(const Options& options, std::int64_t classes) {
  if (is_encoder(options))
    return Classifier(count_encoder_levels(options.integer("image-size"), "classification"),
                      classes);
  return TorchvisionResNet(options.text("model") == "resnet50" ? kResNet50 : kResNet18, classes);
}

}  // namespace

OptionList options_of_classification() {
  const OptionList own = {{"model",
                           "The model: resnet18, resnet50 or encoder (the model of segmentation)",
                           "resnet18", one_of({"resnet18", "resnet50", "encoder"})}};
  const Option smoothing = {"label-smoothing",
                            "Label smoothing, as in torch.nn.CrossEntropyLoss, 0 to 1", 0.0,
                            within(0, 1), "Optimizer"};
  return own + data_options() +
         OptionList{image_size_option("Height and width of the images; a power of two with "
                                      "--model encoder"),
                    transforms_option()} +
         optimizer_options() + OptionList{smoothing};
}

Pipeline classification(Options& options) {
  take_size_of_transforms(options);
  check_sizes(options);
  const auto data = open_classification_data(options);
  const std::int64_t classes = find_classes(*data, options, "classification");
  const ModuleRef model = make_model(options, classes);
  Pipeline input = declare_input(data, options);
  if (const double smoothing = options.number("label-smoothing"); smoothing > 0)
    input = std::move(input).transform("one_hot", OneHot{smoothing});
  input = std::move(input)
              .train("model", model, make_optimizer(options), cross_entropy("image", "label"))
              .metric(top_k("label", 1));
  // With at most 5 classes, the top-5 accuracy is always 1.
  if (classes > 5) input = std::move(input).metric(top_k("label", 5));
  return std::move(input).metric(class_accuracy("label", classes));
}

}  // namespace slipstream
