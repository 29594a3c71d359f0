#include <algorithm>

#include "slipstream/datasets.h"
#include "slipstream/synthetic_cost.h"
#include "workloads/input.h"
#include "workloads/plain_transforms.h"
#include "workloads/raw_images.h"
#include "workloads/resnet.h"
#include "workloads/workloads.h"

namespace slipstream {
namespace {

constexpr std::int64_t kLeastSize = 8;
constexpr std::int64_t kMostSize = 1024;
constexpr std::int64_t kRawFactor = 4;

// What the stages of the article take, by its rates at 256 samples a batch and 4 workers.
constexpr double kReadMs = 8.5;
constexpr double kReadSmallMs = 0.5;
constexpr StepCosts kArticleSteps = {.train_s = 0.290, .copy_s = 0.010, .hand_over_s = 0.010};

/// Of one image: up to the crop, the mask, the colours.
struct TransformCosts {
  double crop_ms;
  double mask_ms;
  double colour_ms;
};
constexpr TransformCosts kPlainCosts = {2.4, 4.2, 2.5};
constexpr TransformCosts kOptimisedCosts = {0.5, 1.9, 1.3};

bool is_article(const Options& options) { return options.costs == "article"; }
bool is_optimised(const Options& options) { return options.transforms == "optimised"; }

std::int64_t raw_size_of(const Options& options) {
  return options.raw_size > 0 ? options.raw_size : kRawFactor * options.image_size;
}

/// Linear in the pixels between images as large as the crop and those of the article.
double read_ms(const Options& options) {
  const auto pixels = [](std::int64_t size) { return static_cast<double>(size * size); };
  const double small = pixels(options.image_size);
  const double large = pixels(kRawFactor * options.image_size);
  return kReadSmallMs +
         (kReadMs - kReadSmallMs) * (pixels(raw_size_of(options)) - small) / (large - small);
}

void check(const Options& options) {
  std::vector<std::string> problems;
  const auto require = [&](bool ok, const std::string& problem) {
    if (!ok) problems.push_back(problem);
  };
  const auto one_of = [&](const char* kind, const std::string& name,
                          const std::vector<std::string>& known) {
    const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
    if (!name.empty() && !is_known) problems.push_back(unknown_name(kind, name, known));
  };
  const bool is_synthetic = options.data == "synthetic";
  const std::string foreign = problem_of_branches_options(options, "starved");
  require(foreign.empty(), foreign);
  require(options.chain.empty(), "starved has transforms of its own; leave --chain out");
  one_of("transforms", options.transforms, {"plain", "optimised"});
  one_of("costs", options.costs, {"article"});
  require(options.image_size >= kLeastSize && options.image_size <= kMostSize,
          "image size " + std::to_string(options.image_size) + ": starved takes 8 to 1024");
  require(is_synthetic || options.raw_size == 0,
          "--raw-size is of synthetic images; those of '" + options.data +
              "' are as they are: write others with make-data --size or convert --resize");
  require(options.raw_size == 0 || options.raw_size >= options.image_size,
          "raw images of " + std::to_string(options.raw_size) +
              " pixels are smaller than a crop of " + std::to_string(options.image_size) +
              ": raise --raw-size or lower --image-size");
  require(is_synthetic || options.costs.empty(),
          "--costs are of synthetic images; leave --data out");
  require(options.batch_size >= 2 || is_article(options),
          "starved normalises over each batch: its size must be at least 2");
  require(!is_synthetic || options.classes >= 2, "starved needs at least 2 classes");
  refuse(problems);
}

std::shared_ptr<const Dataset> data_of(const Options& options) {
  if (options.data != "synthetic") return open_dataset(options.data, options.classes);
  SyntheticOptions synthetic = synthetic_of(options);
  synthetic.size = raw_size_of(options);
  auto images = raw_images(synthetic);
  if (!is_article(options)) return images;
  return with_cost(std::move(images), {.read = {.sleep_s = read_ms(options) * 1e-3}});
}

std::vector<NamedOp> transforms_of(const Options& options) {
  const RandomCrop crop{options.image_size, options.image_size};
  if (is_optimised(options))
    return {
        {"crop", crop}, {"mask", RandomMask{}}, {"colour", ConvertColour{}}, {"scale", Scale{}}};
  return {{"to_tensor", PlainToTensor{}},
          {"crop", PlainCrop{crop}},
          {"mask", PlainMask{}},
          {"colour", PlainColour{}},
          {"scale", Scale{}}};
}

std::vector<NamedOp> with_article_costs(std::vector<NamedOp> transforms, const Options& options) {
  const TransformCosts& costs = is_optimised(options) ? kOptimisedCosts : kPlainCosts;
  const auto wait = [](NamedOp& transform, double ms) {
    transform.op = with_cost(transform.op, {.sleep_s = ms * 1e-3});
  };
  wait(transforms.front(), costs.crop_ms);
  for (NamedOp& each : transforms) {
    if (each.name == "mask") wait(each, costs.mask_ms);
    if (each.name == "colour") wait(each, costs.colour_ms);
  }
  return transforms;
}

/// Takes next to no time.
struct ChannelMeansImpl : torch::nn::Module {
  explicit ChannelMeansImpl(std::int64_t classes)
      : head(register_module("head", torch::nn::Linear(3, classes))) {}

  at::Tensor forward(const at::Tensor& images) { return head(images.mean({2, 3})); }

  torch::nn::Linear head;
};
TORCH_MODULE(ChannelMeans);

}  // namespace

WorkloadDefaults defaults_of_starved(const Options& options) {
  WorkloadDefaults defaults{.batch_size = 256, .workers = 4};
  if (options.optimizer == "sgd") defaults.momentum = 0.9;
  if (is_article(options)) defaults.image_size = kLeastSize;
  return defaults;
}

Pipeline starved(const Options& options) {
  check(options);
  const auto data = data_of(options);
  const std::int64_t classes = classes_of(*data, options, "starved");
  const std::vector<NamedOp> transforms = transforms_of(options);
  if (is_article(options))
    return declare_input(data, options, with_article_costs(transforms, options), kArticleSteps)
        .train("model", ChannelMeans(classes), make_optimizer(options),
               cross_entropy("image", "label"));
  return declare_input(data, options, transforms, {})
      .train("model", ResNet18(classes), make_optimizer(options), cross_entropy("image", "label"));
}

}  // namespace slipstream
