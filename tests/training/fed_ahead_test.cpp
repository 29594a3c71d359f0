#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>

#include "support/slow_set.h"
#include "training/bench.h"

namespace slipstream::test {
namespace {

constexpr std::size_t kBatchSize = 2;
constexpr double kBatchSeconds = 0.01;  // one worker needs at least this time
constexpr std::size_t kPrefetch = 36;
constexpr std::uint64_t kSteps = 60;

struct PlainImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& images) { return conv(images.to(at::kFloat)); }
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(3, 5, 1));
};
TORCH_MODULE(Plain);

/// The second plan continues with the loader of the first, whose queue is full. Measured steady
/// rates must not exceed the worker's rate. Batches that were prefetched while a busy machine did
/// not train may increase a rate; the lower end of its interval must allow for that, and is 0 if no
/// step is steady.
TEST(BenchPrefetch, PrefetchedBatchesDoNotInflateMeasuredRates) {
  const auto data = std::make_shared<SlowSet>(
      synthetic_segmentation({.samples = 64, .size = 8, .classes = 5, .seed = 1}),
      kBatchSeconds / kBatchSize);
  Context context("cpu");
  BenchOptions options;
  options.batch_sizes = {kBatchSize};
  options.steps = kSteps;
  options.repeats = 1;
  options.seconds = 600;
  options.loader.num_workers = 1;
  options.loader.prefetch_batches = kPrefetch;
  options.numerics =
      make_plan("serial", {"copy", "train"}, DeviceKind::cpu, options.loader, {}).numerics;
  std::uint64_t before = 0;
  options.log_line = [&](const std::string& line) {
    if (line.ends_with(": serial")) before = data->samples_read().value();
    if (line.ends_with(": pipelined"))
      data->samples_read().await(before + kBatchSize * (kSteps + kPrefetch), "a full queue");
  };
  const auto make = [&](std::size_t batch_size) {
    return pipeline(data, {.batch_size = batch_size})
        .train("train", Plain(), sgd({.lr = 0.01}), cross_entropy("image", "label"));
  };
  const auto rows = run_bench(context, make, options);
  ASSERT_EQ(rows[1].plan, "pipelined");
  for (const BenchRow& row : {rows[0], rows[1]}) {
    EXPECT_EQ(row.error, "");
    const Measured& rate = row.steps_per_second.value();
    EXPECT_LT(rate.low, 2 / kBatchSeconds) << row.plan << ", " << rate.value;
  }
}

}  // namespace
}  // namespace slipstream::test
