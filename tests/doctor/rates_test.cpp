#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "doctor/cache_levels.h"
#include "doctor/findings.h"
#include "doctor/model_parts.h"
#include "doctor/usage.h"

namespace slipstream::test {
namespace {

using testing::HasSubstr;

TEST(Findings, SlowerBatchIsReportedAsDataDependence) {
  const std::vector<double> fast = {1.0, 1.01, 0.99, 1.0, 1.02, 1.0, 1.01, 0.99};
  std::vector<double> slow = fast;
  for (double& each : slow) each *= 1.2;
  EXPECT_THAT(depends_on_data({fast, slow, fast}).value_or(""), HasSubstr("20 %"));
  EXPECT_FALSE(depends_on_data({fast, fast}));
  EXPECT_FALSE(depends_on_data({fast}));
  const std::vector<double> wild = {1.0, 2.0, 0.5, 1.5, 1.0, 3.0, 0.7, 1.2};
  EXPECT_FALSE(depends_on_data({wild, slow}))
      << "steps on the same batch differ by the same amount";
  EXPECT_FALSE(depends_on_data({{1.0, 1.0}, {2.0, 2.0}})) << "too few steps";
}

TEST(Findings, OtherProcessesOnGpuAreReported) {
  EXPECT_FALSE(shares_gpu(std::nullopt));
  EXPECT_FALSE(shares_gpu(1));
  EXPECT_THAT(shares_gpu(2).value_or(""), HasSubstr("2 processes"));
}

TEST(Findings, SkippedSamplesAreReported) {
  RunResult result;
  EXPECT_FALSE(skips(result));
  result.skipped = {3, {{7, "sample 7, a.jpg: damaged"}, {9, "b.jpg"}}};
  EXPECT_THAT(skips(result).value_or(""),
              testing::AllOf(HasSubstr("were skipped, 2 "), HasSubstr("sample 7, a.jpg: damaged")));
}

TEST(Findings, VariationIsComputedFromWholeSampleTimes) {
  StepLaps read{"read", {1, 3}, {0, 0}};
  StepLaps decode{"decode", {3, 1}, {0, 0}};
  EXPECT_DOUBLE_EQ(compute_variation(seconds_per_sample({read, decode})), 0);
  EXPECT_NEAR(compute_variation(seconds_per_sample({read})), std::sqrt(2.0) / 2, 1e-6);
}

TEST(Levels, SamplesAreCachedAfterEachStepExceptCollate) {
  const auto names = [](bool has_decoding, bool only_first) {
    std::vector<std::string> found;
    for (const SampleLevel& level :
         sample_levels({"a", "b", "c", "d", "collate"}, has_decoding, only_first))
      found.push_back(level.name + "/" + level.after + std::to_string(level.step));
    return found;
  };
  EXPECT_THAT(names(true, false), testing::ElementsAre("processed sample/d3", "after c/c2",
                                                       "decoded sample/b1", "file bytes/a0"));
  EXPECT_THAT(names(false, false), testing::ElementsAre("processed sample/d3", "after c/c2",
                                                        "after b/b1", "raw sample/a0"));
  EXPECT_THAT(names(true, true), testing::ElementsAre("file bytes/a0"));
  EXPECT_EQ(sample_levels({"data set", "collate"}, false, false).front().name, "processed sample");
}

TEST(GpuUse, ValueIsTimeWeightedMean) {
  MeanGpuUse use;
  EXPECT_FALSE(use.value().gpu_utilization);
  use.add({std::nullopt, std::nullopt, 0.5, 1, "too short"}, 0);
  EXPECT_EQ(use.value().note, "too short");
  use.add({0.9, std::nullopt, 0.5, 1, "no DRAM counter"}, 3);
  use.add({0.1, 0.25, std::nullopt, 2, ""}, 1);
  const cuda::GpuUse mean = use.value();
  EXPECT_DOUBLE_EQ(mean.sm_activity.value(), 0.7);
  EXPECT_DOUBLE_EQ(mean.dram_use.value(), 0.25);
  EXPECT_DOUBLE_EQ(mean.gpu_utilization.value(), 0.5);
  EXPECT_EQ(mean.processes, 2U);
  EXPECT_EQ(mean.note, "");
}

}  // namespace
}  // namespace slipstream::test
