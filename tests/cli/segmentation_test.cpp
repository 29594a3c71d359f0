#include <gmock/gmock.h>

#include <numeric>

#include "slipstream/cli/workload.h"
#include "slipstream/engine/trainer.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "tools/make_data.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Options small() {
  Options options = find_options(built_in_workloads(), "segmentation");
  options.batch_size = 4;
  options.give("image-size", 8);
  options.give("classes", 5);
  return options;
}

Pipeline declared(Options options) {
  return make_pipeline(built_in_workloads(), "segmentation", options);
}

Plan plan_for(const std::string& mode) {
  return make_plan(mode, {"copy", "encoder", "decoder"}, DeviceKind::cpu, {{.num_workers = 2}}, {});
}

RunResult train(const Options& options, const std::string& mode, std::uint64_t steps) {
  Context context("cpu");
  const Plan plan = plan_for(mode);
  Trainer trainer(declared(options), context, plan.numerics);
  RunOptions run;
  run.steps = steps;
  return trainer.run(plan, run);
}

TEST(SegmentationTest, HasExpectedHostAndDeviceSteps) {
  const Pipeline pipeline = declared(small());
  EXPECT_THAT(pipeline.host_steps(), ElementsAre("read", "decode", "resize", "collate"));
  EXPECT_THAT(pipeline.device_steps(), ElementsAre("copy", "encoder", "decoder"));
}

TEST(SegmentationTest, EncoderAndDecoderHaveExpectedParameterCounts) {
  Options options = small();
  for (std::int64_t size : {2, 8, 32}) {
    options.give("image-size", size);
    const Pipeline pipeline = declared(options);
    std::int64_t levels = 0;
    while ((1 << levels) < size) ++levels;
    std::int64_t encoder = 3 * 16 + 16, decoder = 16 * 5 * 9 + 5;
    for (std::int64_t level = 0, channels = 16; level < levels; ++level, channels *= 2) {
      encoder += channels * 2 * channels * 4 + 2 * channels;
      decoder += channels * 2 * channels * 4 + channels;
    }
    const auto count = [](const torch::nn::Module& module) {
      std::int64_t total = 0;
      for (const at::Tensor& parameter : module.parameters()) total += parameter.numel();
      return total;
    };
    EXPECT_EQ(count(*pipeline.stages().front().stage.module), encoder) << size;
    EXPECT_EQ(count(*pipeline.train_stage().module), decoder) << size;
    Batch batch;
    batch.set("features", at::zeros({2, 16 << levels, 1, 1}));
    EXPECT_EQ(pipeline.train_stage().forward(batch, "features").sizes(),
              at::IntArrayRef({2, 5, size, size}));
  }
}

TEST(SegmentationTest, PipelinedGivesTheSerialDigest) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    Options options = small();
    options.give("optimizer", optimizer);
    const RunResult serial = train(options, "serial", 12);
    EXPECT_EQ(train(options, "pipelined", 12).digest, serial.digest) << optimizer;
    EXPECT_EQ(train(options, "serial", 12).digest, serial.digest) << optimizer;
    options.seed = 2;
    EXPECT_NE(train(options, "serial", 12).digest, serial.digest) << optimizer;
  }
}

TEST(SegmentationTest, LossFallsOnImagesFromDisk) {
  const TemporaryFolder folder;
  MakeDataOptions data;
  data.samples = 24;
  data.sizes = {32};
  make_segmentation_data(folder.path(), data);
  Options options = find_options(built_in_workloads(), "segmentation");
  options.give("data", folder.path().string());
  options.batch_size = 8;
  options.give("image-size", 16);
  options.give("optimizer", "adamw");
  options.give("lr", 2e-3);
  const std::vector<float> losses = train(options, "pipelined", 60).losses;
  const auto mean = [](auto begin, auto end) {
    return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
  };
  EXPECT_LT(mean(losses.end() - 6, losses.end()), 0.8 * mean(losses.begin(), losses.begin() + 6));
}

TEST(SegmentationTest, RefusesInvalidOptions) {
  const auto refusal = [](auto change) {
    return thrown_by([&] {
      Options options = small();
      change(options);
      declared(options);
    });
  };
  for (std::int64_t size : {1, 3, 48, 2048})
    EXPECT_THAT(
        refusal([&](Options& o) { o.give("image-size", size); }),
        AllOf(StartsWith("Refused: "), HasSubstr("power of two"), HasSubstr(std::to_string(size))));
  for (std::int64_t size : {-8, 0})
    EXPECT_EQ(refusal([&](Options& o) { o.give("image-size", size); }),
              "Refused: --image-size: " + std::to_string(size) + " is less than 1");
  for (std::int64_t classes : {-1, 0, 1, 257})
    EXPECT_THAT(refusal([&](Options& o) { o.give("classes", classes); }),
                StartsWith("Refused: segmentation needs 2 to 256 classes"));
  EXPECT_THAT(refusal([](Options& o) { o.give("optimizer", "adam"); }),
              AllOf(StartsWith("Refused: "), HasSubstr("did you mean 'adamw'?")));
  EXPECT_THAT(refusal([](Options& o) { o.give("lr", -1); }), StartsWith("Refused: --lr: -1"));
  EXPECT_THAT(refusal([](Options& o) { o.give("data", "/no/such/folder"); }),
              StartsWith("Refused: "));
  EXPECT_THAT(refusal([](Options& o) { o.batch_size = 0; }), StartsWith("Refused: "));
}

TEST(WorkloadTest, UnknownNameIsRefusedWithSuggestion) {
  EXPECT_THAT(
      thrown_by([] { find_options(built_in_workloads(), "segmentatoin"); }),
      AllOf(StartsWith("Refused: unknown workload"), HasSubstr("did you mean 'segmentation'?")));
}

}  // namespace
}  // namespace slipstream
