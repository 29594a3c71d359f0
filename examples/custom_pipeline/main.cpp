// A user's training program: a data set, an operation, a stage, a model, and all the verbs.
//   custom_pipeline train quadrants --image-size 32 --steps 200 --optimizer adamw
//   custom_pipeline train quadrants --image-size 32 --transforms-device cuda
//   custom_pipeline bench quadrants --image-size 32 --batch-size 8,32

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>

#include "slipstream/slipstream.h"

namespace {

using namespace slipstream;

constexpr std::int64_t kQuadrants = 4;

/// Noise with one brighter quadrant, whose number is the label. Nothing is stored: sample `index`
/// is generated from (seed, index), so it is the same in every thread.
class Quadrants final : public Dataset {
 public:
  Quadrants(std::int64_t side, std::uint64_t seed) : side_(side), seed_(seed) {}

  std::size_t size() const override { return 512; }

  std::vector<FieldSpec> fields() const override {
    return {{"image", FieldKind::image, DType::uint8, {side_, side_, 3}},
            {"label", FieldKind::label, DType::int64, {}, kQuadrants}};
  }

  void read(std::size_t index, Sample& out) const override {
    RandomStream random({.seed = seed_, .sample = index, .operation = 63});
    const auto quadrant = static_cast<std::int64_t>(random.below(kQuadrants));
    out.fields.resize(2);
    auto* pixel = out.fields[0].array.reset(DType::uint8, {side_, side_, 3}).as<std::uint8_t>();
    for (std::int64_t y = 0; y < side_; ++y)
      for (std::int64_t x = 0; x < side_; ++x) {
        const bool bright = quadrant == 2 * (2 * y / side_) + 2 * x / side_;
        const auto gray = static_cast<std::uint8_t>(random.below(160) + (bright ? 60 : 0));
        pixel = std::fill_n(pixel, 3, gray);
      }
    *out.fields[1].array.reset(DType::int64, {}).as<std::int64_t>() = quadrant;
  }

 private:
  std::int64_t side_;
  std::uint64_t seed_;
};

/// Changes a value of a pixel, on the CPU or on a GPU; values are from 0 to 1.
SLIPSTREAM_PIXEL_FUNCTION(Brighten, {
  float by;
  float operator()(float value) const { return std::clamp(value + by, 0.0F, 1.0F); }
});

/// An operation that brightens or darkens an image by a random amount of at most `most`. In
/// evaluation the amount is 0, but the conversion from 0-255 to 0-1 is still needed.
struct Brightness : DrawnPixelOp<Brighten> {
  static constexpr std::string_view kName = "brightness";
  explicit Brightness(float at_most) : most(at_most) {}
  float most;

  void validate() const {
    if (!(most >= 0 && most <= 1)) throw Refused("brightness: `most` must be 0 to 1");
  }
  bool is_random() const { return most > 0; }
  std::optional<AnyOp> for_evaluation() const { return PixelOp{Brighten{0}}; }
  Brighten draw(const RandomKey& key, const Shape&) const {
    return {(2 * RandomStream(key).uniform() - 1) * most};
  }
};

/// A stage before training that shifts values to the range from -1 to 1.
void center(Batch& batch) { batch.set("input", batch.at("image").mul(2).sub(1)); }

struct ClassifierImpl : torch::nn::Module {
  explicit ClassifierImpl(std::int64_t side)
      : convolution(torch::nn::Conv2dOptions(3, 8, 4).stride(4)),
        linear(8 * (side / 4) * (side / 4), kQuadrants) {
    register_module("convolution", convolution);
    register_module("linear", linear);
  }

  at::Tensor forward(const at::Tensor& images) {
    return linear->forward(convolution->forward(images).relu().flatten(1));
  }

  torch::nn::Conv2d convolution;
  torch::nn::Linear linear;
};
TORCH_MODULE(Classifier);

Pipeline quadrants(const Options& options) {
  const std::int64_t side = options.integer("image-size");
  const auto data = std::make_shared<Quadrants>(side, options.seed);
  return pipeline(data, options)
      .transform("brighten", Brightness(0.08F))
      .stage("center", frozen(center))
      .train("classify", Classifier(side), make_optimizer(options),
             cross_entropy("input", "label"));
}

}  // namespace

int main(int argc, char** argv) {
  const OptionList own = {{"image-size", "Height and width", 64, no_less_than(4)}};
  return slipstream::cli_main(argc, argv, {{"quadrants", quadrants, own + optimizer_options()}});
}
