// Trains a decoder on several fields of a frozen encoder, which are the skip connections of a
// U-Net.
//   skip_connections train masks --data scenes --image-size 64 --classes 10 --plan pipelined

#include <ATen/ops/cat.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/conv.h>

#include "slipstream/slipstream.h"

namespace {

using namespace slipstream;
using torch::nn::Conv2d;
using torch::nn::ConvTranspose2d;

Conv2d convolution(std::int64_t from, std::int64_t to) {
  return Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1));
}

/// Sets f1, f2 and f3: the image, half as high and wide, and a quarter as high and wide.
struct EncoderImpl : torch::nn::Module {
  EncoderImpl() {
    register_module("one", one);
    register_module("two", two);
    register_module("three", three);
  }

  void encode(Batch& batch) {
    const at::Tensor image = batch.at("image").to(at::kFloat).div(255);
    batch.set("f1", one->forward(image).relu());
    batch.set("f2", two->forward(at::max_pool2d(batch.at("f1"), 2)).relu());
    batch.set("f3", three->forward(at::max_pool2d(batch.at("f2"), 2)).relu());
  }

  Conv2d one = convolution(3, 16), two = convolution(16, 32), three = convolution(32, 64);
};
TORCH_MODULE(Encoder);

struct DecoderImpl : torch::nn::Module {
  explicit DecoderImpl(std::int64_t classes) : last(convolution(32, classes)) {
    register_module("up3", up3);
    register_module("middle", middle);
    register_module("up2", up2);
    register_module("last", last);
  }

  at::Tensor forward(const Batch& batch) {
    at::Tensor x = at::cat({up3->forward(batch.at("f3")), batch.at("f2")}, 1);
    x = at::cat({up2->forward(middle->forward(x).relu()), batch.at("f1")}, 1);
    return last->forward(x);
  }

  ConvTranspose2d up3 = ConvTranspose2d(torch::nn::ConvTranspose2dOptions(64, 32, 2).stride(2));
  ConvTranspose2d up2 = ConvTranspose2d(torch::nn::ConvTranspose2dOptions(32, 16, 2).stride(2));
  Conv2d middle = convolution(64, 32), last;
};
TORCH_MODULE(Decoder);

Pipeline masks(const Options& options) {
  const std::int64_t side = options.integer("image-size"), classes = options.integer("classes");
  const auto data = options.text("data") == "synthetic"
                        ? synthetic_segmentation({.size = side, .classes = classes})
                        : segmentation_folder(options.text("data"), classes);
  Encoder encoder;
  freeze(*encoder);
  return pipeline(data, options)
      .transform("resize", Resize{{side, side}})
      .stage("encode", {encoder.ptr(), [e = encoder.ptr()](Batch& batch) { e->encode(batch); }})
      .train("decode", Decoder(classes), make_optimizer(options), cross_entropy("", "label"))
      .metric(mean_iou("label", classes));
}

}  // namespace

int main(int argc, char** argv) {
  const OptionList own = {{"data", "A folder of images/ and masks/, or synthetic", "synthetic"},
                          {"classes", "Number of classes", 10, within(2, 256)},
                          {"image-size", "Height and width, in fours", 64, no_less_than(4)}};
  return slipstream::cli_main(argc, argv, {{"masks", masks, own + optimizer_options()}});
}
