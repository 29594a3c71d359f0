#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <cstring>

#include "cli/resnet.h"
#include "core/patience.h"
#include "core/seconds_since.h"
#include "slipstream/cli/workload.h"
#include "slipstream/engine/trainer.h"
#include "slipstream/transforms/masking.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "tools/make_data.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Options small_starved(bool is_optimized = false) {
  Options options = find_options(built_in_workloads(), "starved");
  options.batch_size = 4;
  options.give("image-size", 12);
  options.give("classes", 5);
  if (is_optimized) options.give("optimized-transforms", true);
  return options;
}

Options article(bool is_optimized = false) {
  Options options = small_starved(is_optimized);
  options.give("costs", "article");
  options.give("image-size", 8);
  return options;
}

Pipeline make_starved(Options options) {
  return make_pipeline(built_in_workloads(), "starved", options);
}

/// Returns the loader's first batches.
std::vector<std::byte> batches(const Options& options, std::size_t count = 5) {
  const Pipeline pipeline = make_starved(options);
  DataLoaderOptions loading = pipeline.loader_options({});
  loading.num_workers = 2;
  DataLoader loader(pipeline.dataset(), pipeline.transforms(), loading);
  std::vector<std::byte> all;
  for (std::size_t i = 0; i < count; ++i) {
    const HostBatch batch = loader.next();
    all.insert(all.end(), batch.data, batch.data + loader.layout().bytes);
    loader.release(batch, nullptr);
  }
  return all;
}

RunResult train_starved(const Options& options, const std::string& mode) {
  Context context("cpu");
  Pipeline pipeline = make_starved(options);
  const Plan plan =
      make_plan(mode, pipeline.device_steps(), DeviceKind::cpu, {{.num_workers = 4}}, {});
  Trainer trainer(std::move(pipeline), context, plan.numerics);
  RunOptions run;
  run.steps = 2;
  return trainer.run(plan, run);
}

double wall_s(const RunResult& result, const std::string& step) {
  for (const StepCounter& counter : result.counters)
    if (counter.name == step && counter.calls > 0)
      return counter.wall_s / static_cast<double>(counter.calls);
  return 0;
}

TEST(StarvedTest, HasExpectedHostAndDeviceSteps) {
  const Pipeline plain = make_starved(small_starved());
  EXPECT_THAT(plain.host_steps(), ElementsAre("read", "decode", "to_tensor", "crop", "mask",
                                              "color", "scale", "collate"));
  EXPECT_THAT(plain.device_steps(), ElementsAre("copy", "model"));
  EXPECT_THAT(make_starved(small_starved(true)).host_steps(),
              ElementsAre("read", "decode", "crop", "mask", "color", "scale", "collate"));
}

TEST(StarvedTest, DefaultsAreThoseOfTheArticle) {
  EXPECT_EQ(built_in_workloads().back().defaults.num_workers, 4U);
  Options options = find_options(built_in_workloads(), "starved");
  EXPECT_EQ(options.batch_size, 256U);
  EXPECT_EQ(options.integer("image-size"), 256);
  EXPECT_EQ(options.number("momentum"), 0.9);
  options.give("costs", "article");
  make_pipeline(built_in_workloads(), "starved", options);
  EXPECT_EQ(options.integer("image-size"), 8);
  EXPECT_EQ(options.integer("raw-size"), 32);
}

TEST(StarvedTest, ResNet18HasExpectedParameterCountAndOutputSizes) {
  ResNet18 model(1000);
  std::int64_t weights = 0;
  for (const at::Tensor& each : model->parameters()) weights += each.numel();
  EXPECT_EQ(weights, 11'689'512);
  EXPECT_EQ(model->forward(at::zeros({2, 3, 8, 8})).sizes(), at::IntArrayRef({2, 1000}));
  EXPECT_EQ(model->blocks->forward(at::zeros({1, 64, 56, 56})).sizes(),
            at::IntArrayRef({1, 512, 7, 7}));
}

TEST(StarvedTest, RawImagesAreFourTimesTheImageSizeByDefault) {
  const auto read_size = [](const Options& options) {
    Sample sample;
    make_starved(options).dataset()->read(0, sample);
    return sample.fields[0].array.view().shape;
  };
  EXPECT_EQ(read_size(small_starved()), (Shape{48, 48, 3}));
  Options options = small_starved();
  options.give("raw-size", 12);
  EXPECT_EQ(read_size(options), (Shape{12, 12, 3}));
  EXPECT_EQ(make_starved(options).dataset()->fields()[0].shape, (Shape{-1, -1, 3}));
}

TEST(StarvedTest, PlainAndOptimizedTransformsGiveTheSameBytes) {
  for (const std::int64_t size : {8, 12, 32, 41}) {
    Options plain = small_starved();
    plain.give("image-size", size);
    Options optimized = plain;
    optimized.give("optimized-transforms", true);
    const auto bytes = batches(plain);
    EXPECT_EQ(bytes, batches(optimized)) << size;
    plain.seed = 2;
    EXPECT_NE(bytes, batches(plain)) << size;
  }
}

TEST(StarvedTest, PlainAndOptimizedTransformsGiveTheSameBytesForFiles) {
  const TemporaryFolder folder;
  MakeDataOptions data;
  data.samples = 12;
  data.sizes = {64, 72};
  data.classes = 5;
  data.png_share = 0.5;
  make_classification_data(folder.path(), data);
  Options plain = small_starved();
  plain.give("data", folder.path().string());
  plain.give("image-size", 16);
  Options optimized = plain;
  optimized.give("optimized-transforms", true);
  EXPECT_EQ(batches(plain), batches(optimized));
  EXPECT_EQ(train_starved(plain, "serial").digest, train_starved(optimized, "pipelined").digest);
}

TEST(StarvedTest, MaskedShareMatchesTheProbability) {
  Options options = small_starved();
  options.give("image-size", 64);
  const Pipeline pipeline = make_starved(options);
  const auto layout =
      DataLoader::plan_layout(*pipeline.dataset(), pipeline.transforms(), {options.samples(), {}});
  const std::vector<std::byte> bytes = batches(options, 1);
  const SlabField& field = layout.field("image");
  std::vector<float> image(options.batch_size * field.sample_bytes / sizeof(float));
  std::memcpy(image.data(), bytes.data() + field.offset_bytes, image.size() * sizeof(float));
  double masked = 0;
  for (std::size_t i = 0; i < image.size(); i += 3) {
    // Black in YCbCr. A random pixel is black with a probability of only 2^-24.
    masked += image[i] == 0 && image[i + 1] == 128.0F / 255 && image[i + 2] == 128.0F / 255 ? 1 : 0;
    EXPECT_LE(image[i], 1.01F);
  }
  EXPECT_NEAR(masked / static_cast<double>(image.size() / 3), 1 - std::pow(0.75, 5), 0.03);
}

TEST(StarvedTest, OptimizedTransformsMoveToTheDeviceAfterTheCrop) {
  EXPECT_EQ(first_on_device(make_starved(small_starved(true))), "mask");
  EXPECT_EQ(first_on_device(make_starved(article(true))), "mask");
  EXPECT_EQ(first_on_device(make_starved(small_starved())), "scale");
}

TEST(StarvedTest, StepsTakeAtLeastTheTimesOfTheArticle) {
  const RunResult plain = train_starved(article(), "serial");
  EXPECT_GE(wall_s(plain, "read"), 0.0085);
  EXPECT_GE(wall_s(plain, "to_tensor"), 0.0024);
  EXPECT_GE(wall_s(plain, "mask"), 0.0042);
  EXPECT_GE(wall_s(plain, "color"), 0.0025);
  EXPECT_GE(plain.lanes.back().busy_s, 2 * 0.310);
  const RunResult optimized = train_starved(article(true), "serial");
  EXPECT_GE(wall_s(optimized, "crop"), 0.0005);
  EXPECT_GE(wall_s(optimized, "mask"), 0.0019);
  EXPECT_GE(wall_s(optimized, "color"), 0.0013);
  EXPECT_EQ(optimized.digest, plain.digest);
}

TEST(StarvedTest, SmallerRawImagesAreReadFaster) {
  // Returns a mean, because a single wait may be too long, and the waits after it are shorter to
  // compensate for that.
  const auto compute_mean = [](Options options) {
    constexpr std::size_t kReads = 50;
    const auto data = make_starved(options).dataset();
    Sample sample;
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < kReads; ++i) data->read(i, sample);
    return seconds_since(start) / kReads;
  };
  constexpr double kNearly = 0.9;  ///< an earlier read may already have waited for part of the time
  Options options = article();
  EXPECT_GE(compute_mean(options), kNearly * 0.0085);
  options.give("raw-size", 16);
  EXPECT_GE(compute_mean(options), kNearly * (0.0005 + 0.008 / 5));
  options.give("raw-size", 8);
  test::eventually("reading that takes less than for large images",
                   [&] { return compute_mean(options) < kNearly * 0.0085; });
}

TEST(StarvedTest, BadOptionsAreRefused) {
  const auto refusal = [](const auto& change) {
    return thrown_by([&] {
      Options options = small_starved();
      change(options);
      make_starved(options);
    });
  };
  const auto given = [&](const std::string& option, const OptionValue& value) {
    return refusal([&](Options& options) { options.give(option, value); });
  };
  EXPECT_THAT(given("costs", "articel"),
              AllOf(StartsWith("Refused: "), HasSubstr("did you mean 'article'?")));
  EXPECT_THAT(given("raw-size", 11), AllOf(StartsWith("Refused: "), HasSubstr("raise --raw-size")));
  EXPECT_THAT(given("image-size", 7), HasSubstr("7 is not from 8 to 1024"));
  EXPECT_THAT(given("image-size", 1025), HasSubstr("1025 is not from 8 to 1024"));
  EXPECT_THAT(refusal([](Options& o) { o.batch_size = 1; }), HasSubstr("at least 2"));
  EXPECT_THAT(given("classes", 1), HasSubstr("at least 2 classes"));
  for (const char* other : {"mode", "transforms"})
    EXPECT_THAT(given(other, "x"), StartsWith("Refused: unknown option"));
  EXPECT_THAT(refusal([](Options& o) {
                o.give("data", "photos");
                o.give("raw-size", 64);
                o.give("costs", "article");
              }),
              AllOf(HasSubstr("make-data --size"), HasSubstr("leave --data out")));
  EXPECT_THAT(refusal([](Options& o) {
                o.give("optimizer", "adamw");
                o.give("momentum", 0.5);
              }),
              AllOf(StartsWith("Refused: "), HasSubstr("leave --momentum out")));
  EXPECT_EQ(refusal([](Options& o) { o.give("optimizer", "adamw"); }), "nothing");
}

}  // namespace
}  // namespace slipstream
