#include <gmock/gmock.h>

#include <cmath>

#include "core/patience.h"
#include "slipstream/cli/workload.h"
#include "slipstream/engine/fork_join.h"
#include "slipstream/engine/trainer.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Options small_branches(const std::string& mode) {
  Options options = find_options(built_in_workloads(), "branches");
  options.give("mode", mode);
  options.batch_size = 4;
  options.give("image-size", 8);
  options.give("classes", 5);
  return options;
}

Pipeline make_branches(Options options) {
  return make_pipeline(built_in_workloads(), "branches", options);
}

Plan branches_plan(const Pipeline& pipeline, const std::string& mode) {
  return make_plan(mode, pipeline.device_steps(), DeviceKind::cpu, {{.num_workers = 1}}, {});
}

RunResult train_branches(const Options& options, const std::string& mode, std::uint64_t steps,
                         std::vector<at::Tensor>* weights = nullptr) {
  Context context("cpu");
  Pipeline pipeline = make_branches(options);
  if (weights != nullptr) *weights = pipeline.train_stage().module->parameters();
  const Plan plan = branches_plan(pipeline, mode);
  Trainer trainer(std::move(pipeline), context, plan.numerics);
  RunOptions run;
  run.steps = steps;
  return trainer.run(plan, run);
}

TEST(BranchesTest, EveryModeGivesTheSameDigestUnderEveryPlanAndFork) {
  for (const char* mode : {"load", "branches", "ensemble"}) {
    Options options = small_branches(mode);
    if (options.text("mode") == "load") {
      options.give("load-ms", 0);
      options.give("step-ms", 0);
    }
    const RunResult serial = train_branches(options, "serial", 12);
    EXPECT_NE(serial.losses.front(), serial.losses.back());
    for (const char* fork : {"auto", "streams", "one-stream"}) {
      if (std::string(mode) != "load") options.give("fork", fork);
      EXPECT_EQ(train_branches(options, "pipelined", 12).digest, serial.digest)
          << mode << ", " << fork;
    }
  }
}

TEST(BranchesTest, BranchesModeHasExpectedStepsAndParameterCount) {
  Options options = small_branches("branches");
  const Pipeline pipeline = make_branches(options);
  EXPECT_THAT(pipeline.device_steps(), ElementsAre("copy", "model"));
  std::int64_t weights = 0;
  for (const at::Tensor& each : pipeline.train_stage().module->parameters())
    weights += each.numel();
  EXPECT_EQ(weights, 2 * (64 * 3 * 9 + 64) + 128 * 5 + 5);
}

TEST(BranchesTest, EnsembleMemberGetsTheSameWeightsAsAlone) {
  std::vector<at::Tensor> all, alone;
  Options options = small_branches("ensemble");
  train_branches(options, "pipelined", 8, &all);
  // its initial weights are sampled first, so they are the same without the others
  options.give("members", 1);
  train_branches(options, "serial", 8, &alone);
  ASSERT_EQ(all.size(), 3 * alone.size());
  EXPECT_TRUE(std::isfinite(alone.front().sum().item<float>()));
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_TRUE(all[i].equal(alone[i])) << i;
    EXPECT_FALSE(all[i].equal(all[i + alone.size()])) << i;
  }
}

TEST(BranchesTest, GainOfOverlappedLoadingIsReported) {
  Options options = small_branches("load");
  options.give("load-ms", 2);
  options.give("step-ms", 4);
  RunResult result;
  // The gain is left out if a busy machine suspended the loader or the steps for a while.
  test::eventually("a run in which the loader keeps pace", [&] {
    result = train_branches(options, "pipelined", 80);
    return !result.gains.empty();
  });
  ASSERT_EQ(result.gains.size(), 1U);
  EXPECT_EQ(result.gains[0].part, "loading");
  EXPECT_GT(result.gains[0].predicted.value, 1);
  EXPECT_LE(result.gains[0].predicted.value, 2);
  EXPECT_GT(result.gains[0].measured.value, 0);
  EXPECT_LE(result.gains[0].measured.value, result.gains[0].predicted.value);
  EXPECT_THAT(result.gains[0].measured.n, testing::AnyOf(16U, 32U));
  // Sleeping takes at least the requested time.
  EXPECT_GE(result.counters.front().wall_s, 80 * 0.002);
  EXPECT_GE(result.lanes.back().busy_s, 80 * 0.004);
  EXPECT_TRUE(train_branches(small_branches("load"), "pipelined", 31).gains.empty());
}

TEST(BranchesTest, GainOfForkIsReported) {
  Options options = small_branches("branches");
  options.give("fork", "streams");
  const RunResult result = train_branches(options, "serial", 4);
  ASSERT_FALSE(result.gains.empty());
  EXPECT_EQ(result.gains[0].part, "model.fork");
  EXPECT_EQ(result.gains[0].chosen, "streams");
  options.give("mode", "ensemble");
  EXPECT_EQ(train_branches(options, "serial", 4).gains[0].part, "members");
}

TEST(BranchesTest, BadOptionsAreRefused) {
  const auto refusal = [](const std::string& mode, const std::string& option, OptionValue value) {
    return thrown_by([&] {
      Options options = small_branches(mode);
      options.give(option, std::move(value));
      make_branches(options);
    });
  };
  EXPECT_THAT(refusal("load", "mode", "ensembel"),
              AllOf(StartsWith("Refused: --mode: "), HasSubstr("did you mean 'ensemble'?")));
  EXPECT_THAT(thrown_by([] { make_branches(find_options(built_in_workloads(), "branches")); }),
              AllOf(StartsWith("Refused: "), HasSubstr("give --mode load, branches or ensemble")));
  EXPECT_THAT(refusal("branches", "fork", "stream"),
              AllOf(StartsWith("Refused: --fork: "), HasSubstr("did you mean 'streams'?")));
  EXPECT_THAT(refusal("load", "data", "photos"), StartsWith("Refused: unknown option 'data'"));
  for (const std::int64_t members : {0, 100'000})
    EXPECT_THAT(refusal("ensemble", "members", members), HasSubstr("is not from 1 to 1024"));
  for (const double ms : {-1.0, 10'001.0})
    EXPECT_THAT(refusal("load", "step-ms", ms), HasSubstr("is not from 0 to 10000"));
  EXPECT_THAT(refusal("load", "classes", 1), HasSubstr("at least 2 classes"));
}

TEST(BranchesTest, OptionsOfOtherModesAreRefused) {
  for (const auto& [mode, option] :
       {std::pair("load", "members"), std::pair("load", "fork"), std::pair("branches", "members"),
        std::pair("ensemble", "load-ms"), std::pair("branches", "step-ms")}) {
    Options options = small_branches(mode);
    options.give(option, std::string(option) == "fork" ? OptionValue("streams") : OptionValue(5));
    EXPECT_THAT(thrown_by([&] { make_branches(options); }),
                StartsWith("Refused: --" + std::string(option) + " has no effect on branches"));
  }
}

}  // namespace
}  // namespace slipstream
