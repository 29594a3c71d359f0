#include "cli/input.h"
#include "cli/option_lists.h"
#include "cli/plain_transforms.h"
#include "cli/raw_images.h"
#include "cli/resnet.h"
#include "cli/workloads.h"
#include "datasets/with_cost.h"
#include "engine/step_costs.h"
#include "slipstream/datasets/datasets.h"
#include "transforms/synthetic_cost.h"

namespace slipstream {
namespace {

constexpr std::int64_t kLeastSize = 8;
constexpr std::int64_t kMostSize = 1024;
constexpr std::int64_t kRawFactor = 4;

// Times of the article's stages, computed from its rates with 256 samples per batch and 4 workers.
constexpr double kReadMs = 8.5;
constexpr double kReadSmallMs = 0.5;
constexpr StepCosts kArticleSteps = {.train_s = 0.290, .copy_s = 0.010, .hand_over_s = 0.010};

/// Times of the transforms of one image: up to the crop, the mask, the colors.
struct TransformCosts {
  double crop_ms;
  double mask_ms;
  double color_ms;
};
constexpr TransformCosts kPlainCosts = {2.4, 4.2, 2.5};
constexpr TransformCosts kOptimizedCosts = {0.5, 1.9, 1.3};

bool is_article(const Options& options) { return options.text("costs") == "article"; }
bool is_optimized(const Options& options) { return options.flag("optimized-transforms"); }
/// Sets the sizes that were not given.
void set_sizes(Options& options) {
  if (is_article(options) && !options.is_given("image-size")) options.set("image-size", kLeastSize);
  if (is_synthetic(options) && !options.is_given("raw-size"))
    options.set("raw-size", kRawFactor * options.integer("image-size"));
}

/// Interpolates linearly, by the number of pixels, between images of the size of the crop and those
/// of the article.
double read_ms(const Options& options) {
  const auto pixels = [](std::int64_t size) { return static_cast<double>(size * size); };
  const std::int64_t size = options.integer("image-size");
  const double small = pixels(size), large = pixels(kRawFactor * size);
  return kReadSmallMs +
         (kReadMs - kReadSmallMs) * (pixels(options.integer("raw-size")) - small) / (large - small);
}

void check(const Options& options) {
  std::vector<std::string> problems;
  const auto require = [&](bool ok, const std::string& problem) {
    if (!ok) problems.push_back(problem);
  };
  const std::int64_t size = options.integer("image-size");
  const bool synthetic = is_synthetic(options);
  const std::int64_t raw_size = synthetic ? options.integer("raw-size") : size;
  require(synthetic || !options.is_given("raw-size"),
          "--raw-size has an effect only on synthetic images; the images of '" +
              options.text("data") +
              "' keep their size: write images of another size with make-data --size or convert "
              "--resize");
  require(raw_size >= size, "raw images of " + std::to_string(raw_size) +
                                " pixels are smaller than a crop of " + std::to_string(size) +
                                ": raise --raw-size or lower --image-size");
  require(synthetic || !is_article(options), "--costs needs synthetic images; leave --data out");
  require(options.batch_size >= 2 || is_article(options),
          "starved normalizes over each batch: its size must be at least 2");
  require(!synthetic || options.integer("classes") >= 2, "starved needs at least 2 classes");
  refuse(problems);
}

std::shared_ptr<const Dataset> open_raw_data(const Options& options) {
  if (!is_synthetic(options)) return open_data(options);
  SyntheticOptions synthetic = make_synthetic_options(options);
  synthetic.size = options.integer("raw-size");
  auto images = raw_images(synthetic);
  if (!is_article(options)) return images;
  return with_cost(std::move(images), {.read = {.sleep_s = read_ms(options) * 1e-3}});
}

std::vector<NamedOp> make_transforms(const Options& options) {
  const std::int64_t size = options.integer("image-size");
  const RandomCrop crop{size};
  if (is_optimized(options))
    return {{"crop", crop}, {"mask", RandomMask{}}, {"color", ConvertColor{}}, {"scale", Divide{}}};
  return {{"to_tensor", PlainToTensor{}},
          {"crop", PlainCrop{crop}},
          {"mask", PlainMask{}},
          {"color", PlainColor{}},
          {"scale", Divide{}}};
}

std::vector<NamedOp> with_article_costs(std::vector<NamedOp> transforms, const Options& options) {
  const TransformCosts& costs = is_optimized(options) ? kOptimizedCosts : kPlainCosts;
  const auto wait = [](NamedOp& transform, double ms) {
    transform.op = with_cost(transform.op, {.sleep_s = ms * 1e-3});
  };
  wait(transforms.front(), costs.crop_ms);
  for (NamedOp& each : transforms) {
    if (each.name == "mask") wait(each, costs.mask_ms);
    if (each.name == "color") wait(each, costs.color_ms);
  }
  return transforms;
}

/// A model that takes almost no time.
struct ChannelMeansImpl : torch::nn::Module {
  explicit ChannelMeansImpl(std::int64_t classes)
      : head(register_module("head", torch::nn::Linear(3, classes))) {}

  at::Tensor forward(const at::Tensor& images) { return head(images.mean({2, 3})); }

  torch::nn::Linear head;
};
TORCH_MODULE(ChannelMeans);

}  // namespace

OptionList options_of_starved() {
  const OptionList own = {
      {"optimized-transforms",
       "Crops first and uses the library's fast operations instead of the plain ones"},
      {"costs", "article: each stage waits as long as in the published case", "",
       one_of({"article"})},
      {"raw-size", "Height and width of synthetic raw images (default: 4 times the crop's)", 0,
       no_less_than(1)}};
  Option size = image_size_option("Height and width of the crop, 8 to 1024 (8 with --costs)");
  size.check = within(kLeastSize, kMostSize);
  return own + data_options() + OptionList{size} +
         with_default(optimizer_options(), "momentum", 0.9);
}

Pipeline starved(Options& options) {
  set_sizes(options);
  check(options);
  const auto data = open_raw_data(options);
  const std::int64_t classes = find_classes(*data, options, "starved");
  const std::vector<NamedOp> transforms = make_transforms(options);
  if (is_article(options))
    return with_costs(declare_input(data, options, with_article_costs(transforms, options)),
                      kArticleSteps)
        .train("model", ChannelMeans(classes), make_optimizer(options),
               cross_entropy("image", "label"));
  return declare_input(data, options, transforms)
      .train("model", ResNet18(classes), make_optimizer(options), cross_entropy("image", "label"));
}

}  // namespace slipstream
