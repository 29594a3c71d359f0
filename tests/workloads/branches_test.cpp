#include <gmock/gmock.h>

#include <cmath>

#include "slipstream/fork_join.h"
#include "slipstream/trainer.h"
#include "slipstream/workload.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Options small(const std::string& mode) {
  Options options;
  options.mode = mode;
  options.batch_size = 4;
  options.image_size = 8;
  options.classes = 5;
  options.load_ms = 2;
  options.step_ms = 4;
  return options;
}

Pipeline declared(const Options& options) {
  return make_pipeline(built_in_workloads(), "branches", options);
}

Plan plan_for(const Pipeline& pipeline, const std::string& mode) {
  return make_plan(mode, pipeline.device_steps(), DeviceKind::cpu, {.workers = 1}, {});
}

RunResult train(const Options& options, const std::string& mode, std::uint64_t steps,
                std::vector<at::Tensor>* weights = nullptr) {
  Context context("cpu");
  Pipeline pipeline = declared(options);
  if (weights != nullptr) *weights = pipeline.train_stage().module->parameters();
  const Plan plan = plan_for(pipeline, mode);
  Trainer trainer(std::move(pipeline), context, plan.numerics);
  RunOptions run;
  run.steps = steps;
  return trainer.run(plan, run);
}

TEST(BranchesTest, EveryModeTrainsTheSameUnderEveryPlanAndFork) {
  for (const char* mode : {"load", "branches", "ensemble"}) {
    Options options = small(mode);
    options.load_ms = options.step_ms = 0;
    const RunResult serial = train(options, "serial", 12);
    EXPECT_NE(serial.losses.front(), serial.losses.back());
    for (const char* fork : {"auto", "streams", "one-stream"}) {
      options.fork = fork;
      EXPECT_EQ(train(options, "pipelined", 12).digest, serial.digest) << mode << ", " << fork;
    }
  }
}

TEST(BranchesTest, HasTheLayersOfW4) {
  Options options = small("branches");
  const Pipeline pipeline = declared(options);
  EXPECT_THAT(pipeline.device_steps(), ElementsAre("copy", "model"));
  std::int64_t weights = 0;
  for (const at::Tensor& each : pipeline.train_stage().module->parameters())
    weights += each.numel();
  EXPECT_EQ(weights, 2 * (64 * 3 * 9 + 64) + 128 * 5 + 5);
}

TEST(BranchesTest, AMemberLearnsWhatItWouldAlone) {
  std::vector<at::Tensor> all, alone;
  Options options = small("ensemble");
  train(options, "pipelined", 8, &all);
  options.members = 1;  // the first one's initial weights are drawn first
  train(options, "serial", 8, &alone);
  ASSERT_EQ(all.size(), 3 * alone.size());
  EXPECT_TRUE(std::isfinite(alone.front().sum().item<float>()));
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_TRUE(all[i].equal(alone[i])) << i;
    EXPECT_FALSE(all[i].equal(all[i + alone.size()])) << i;
  }
}

TEST(BranchesTest, LoadingBesideStepsIsTold) {
  const RunResult result = train(small("load"), "pipelined", 40);
  ASSERT_EQ(result.gains.size(), 1U);
  EXPECT_EQ(result.gains[0].of, "loading");
  EXPECT_GT(result.gains[0].predicted.value, 1);
  EXPECT_LE(result.gains[0].predicted.value, 2);
  EXPECT_GT(result.gains[0].measured.value, 0);
  EXPECT_LE(result.gains[0].measured.value, result.gains[0].predicted.value);
  EXPECT_EQ(result.gains[0].measured.n, 16U);
  // Sleeping takes no less than what was asked for.
  EXPECT_GE(result.counters.front().wall_s, 40 * 0.002);
  EXPECT_GE(result.lanes.back().busy_s, 40 * 0.004);
  EXPECT_TRUE(train(small("load"), "pipelined", 31).gains.empty());
}

TEST(BranchesTest, ForksAreTold) {
  Options options = small("branches");
  options.fork = "streams";
  const RunResult result = train(options, "serial", 4);
  ASSERT_FALSE(result.gains.empty());
  EXPECT_EQ(result.gains[0].of, "model.fork");
  EXPECT_EQ(result.gains[0].kept, "streams");
  options.mode = "ensemble";
  EXPECT_EQ(train(options, "serial", 4).gains[0].of, "members");
}

TEST(BranchesTest, BadOptionsAreRefused) {
  const auto refusal = [](const auto& change) {
    Options options = small("branches");
    change(options);
    return thrown_by([&] { declared(options); });
  };
  EXPECT_THAT(refusal([](Options& o) { o.mode = "ensembel"; }),
              AllOf(StartsWith("Refused: unknown mode"), HasSubstr("did you mean 'ensemble'?")));
  EXPECT_THAT(refusal([](Options& o) { o.mode = ""; }),
              AllOf(StartsWith("Refused: "), HasSubstr("give --mode load, branches or ensemble")));
  EXPECT_THAT(refusal([](Options& o) { o.fork = "stream"; }),
              AllOf(StartsWith("Refused: unknown fork"), HasSubstr("did you mean 'streams'?")));
  EXPECT_THAT(refusal([](Options& o) { o.data = "photos"; }),
              AllOf(StartsWith("Refused: "), HasSubstr("leave --data out")));
  EXPECT_THAT(refusal([](Options& o) {
                o.mode = "ensemble";
                o.members = 0;
              }),
              AllOf(StartsWith("Refused: "), HasSubstr("at least one member")));
  EXPECT_THAT(refusal([](Options& o) {
                o.mode = "ensemble";
                o.members = 100'000;
              }),
              AllOf(StartsWith("Refused: "), HasSubstr("at most 1024 members")));
  for (const double ms : {-1.0, 10'001.0}) {
    EXPECT_THAT(refusal([&](Options& o) {
                  o.mode = "load";
                  o.step_ms = ms;
                }),
                AllOf(StartsWith("Refused: "), HasSubstr("0 to 10,000")));
  }
  EXPECT_THAT(refusal([](Options& o) { o.classes = 1; }), HasSubstr("at least 2 classes"));
  for (const char* other : {"segmentation", "classification"})
    EXPECT_THAT(thrown_by([&] { make_pipeline(built_in_workloads(), other, small("load")); }),
                AllOf(StartsWith("Refused: "), HasSubstr("leave --mode load out")));
}

}  // namespace
}  // namespace slipstream
