#include "engine/engine.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>

#include <cstring>
#include <string_view>

#include "cuda/cuda.h"
#include "gpu.h"
#include "slipstream/transforms/resize.h"

namespace slipstream::test {
namespace {

struct EncoderImpl : torch::nn::Module {
  explicit EncoderImpl(std::int64_t channels)
      : conv(register_module(
            "conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, channels, 2).stride(2)))) {}

  at::Tensor forward(const at::Tensor& images) {
    return at::relu(conv->forward(images.to(at::kFloat).mul(1.0 / 255)));
  }

  torch::nn::Conv2d conv;
};
TORCH_MODULE(Encoder);

struct DecoderImpl : torch::nn::Module {
  DecoderImpl(std::int64_t channels, std::int64_t classes, bool with_noise)
      : noisy(with_noise),
        up(register_module(
            "up", torch::nn::ConvTranspose2d(
                      torch::nn::ConvTranspose2dOptions(channels, channels, 2).stride(2)))),
        head(register_module(
            "head", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, classes, 3).padding(1)))) {
    if (!noisy) return;
    norm = register_module("norm", torch::nn::BatchNorm2d(channels));
    dropout = register_module("dropout", torch::nn::Dropout(0.25));
  }

  at::Tensor forward(const at::Tensor& features) {
    at::Tensor x = at::relu(up->forward(features));
    if (noisy) x = dropout->forward(norm->forward(x));
    return head->forward(x);
  }

  bool noisy;
  torch::nn::ConvTranspose2d up;
  torch::nn::Conv2d head;
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Decoder);

std::shared_ptr<Optimizer> build_optimizer(const Tiny& tiny) {
  if (tiny.optimizer == "adamw") return adamw({.lr = tiny.lr});
  if (tiny.optimizer == "momentum")
    return sgd({.lr = tiny.lr, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true});
  return sgd({.lr = tiny.lr});
}

}  // namespace

Pipeline tiny_pipeline(const Tiny& tiny) {
  at::manual_seed(tiny.seed);
  Encoder encoder(tiny.channels);
  freeze(*encoder);
  Decoder decoder(tiny.channels, tiny.classes, tiny.noisy);
  auto dataset = tiny.dataset;
  if (dataset == nullptr) {
    SyntheticOptions synthetic;
    synthetic.samples = tiny.samples;
    synthetic.size = tiny.stored_size > 0 ? tiny.stored_size : tiny.size;
    synthetic.classes = tiny.classes;
    synthetic.seed = tiny.seed;
    dataset = synthetic_segmentation(synthetic);
  }
  Pipeline declared = pipeline(
      dataset,
      {.batch_size = tiny.batch_size, .seed = tiny.seed, .on_bad_sample = tiny.on_bad_sample});
  declared = with_costs(std::move(declared), tiny.costs);
  for (const NamedOp& each : tiny.transforms)
    declared = std::move(declared).transform(each.name, each.op);
  if (tiny.stored_size > 0)
    declared = std::move(declared).transform("resize", Resize{{tiny.size, tiny.size}});
  declared = std::move(declared).stage("encode", frozen(encoder, "image", "features"));
  for (const auto& [name, function] : tiny.extra)
    declared = std::move(declared).stage(name, frozen(function));
  return std::move(declared).train(
      "train", decoder, build_optimizer(tiny),
      tiny.loss ? custom_loss("features", tiny.loss) : cross_entropy("features", "label"));
}

Plan::Numerics exact(Precision precision) {
  Plan::Numerics numerics;
  numerics.precision = precision;
  numerics.deterministic = true;
  numerics.cudnn_benchmark = false;
  return numerics;
}

Plan build_plan(const Lanes& lanes, Driver driver, std::size_t depth,
                const Plan::Numerics& numerics) {
  Plan plan;
  plan.schedule.mode = lanes.size() == 1 ? "serial" : "pipelined";
  for (const auto& steps : lanes) plan.schedule.lanes.push_back({steps, 0});
  plan.schedule.lanes.back().priority = 2;
  plan.schedule.depth = depth;
  plan.schedule.driver = driver;
  plan.schedule.loader.pin_memory = std::string_view(kDevice) == "cuda";
  plan.numerics = numerics;
  return plan;
}

Plan serial_plan(const std::vector<std::string>& extra) {
  std::vector<std::string> all = {"copy", "encode"};
  all.insert(all.end(), extra.begin(), extra.end());
  all.emplace_back("train");
  return build_plan({all}, Driver::interleaved, 1);
}

std::string describe(const Plan& plan) {
  std::string text = plan.schedule.driver == Driver::threaded ? "threaded" : "interleaved";
  text += ", depth " + std::to_string(plan.schedule.depth) + ", workers " +
          std::to_string(plan.schedule.loader.num_workers) + ", lanes";
  for (const LanePlan& lane : plan.schedule.lanes) {
    text += " [";
    for (const std::string& step : lane.steps) text += (text.back() == '[' ? "" : " ") + step;
    text += "]";
  }
  return text;
}

RunOptions steps(std::uint64_t n) {
  RunOptions options;
  options.steps = n;
  return options;
}

RunHooks delayed(double microseconds, std::uint64_t seed) {
  RunHooks hooks;
  hooks.lane_delay_us = microseconds;
  hooks.delay_seed = seed;
  return hooks;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const at::Tensor left = a.detach().cpu().contiguous();
  const at::Tensor right = b.detach().cpu().contiguous();
  return std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

void EngineTest::SetUp() {
  if (!on_gpu() || !cuda::devices().empty()) return;
  if (gpu_is_required()) FAIL() << "no usable GPU, and SLIPSTREAM_REQUIRE_GPU=1";
  GTEST_SKIP() << "no usable GPU";
}

bool EngineTest::on_gpu() { return std::string_view(kDevice) == "cuda"; }

Context& EngineTest::context() {
  static Context one(kDevice);
  return one;
}

std::unique_ptr<Trainer> EngineTest::trainer(const Tiny& tiny, const Plan::Numerics& numerics) {
  return std::make_unique<Trainer>(tiny_pipeline(tiny), context(), numerics);
}

RunResult EngineTest::fresh_run(const Tiny& tiny, const Plan& plan, const RunOptions& options,
                                const RunHooks& hooks) {
  return run_with(*trainer(tiny, plan.numerics), plan, options, hooks);
}

}  // namespace slipstream::test
