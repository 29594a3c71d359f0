#include <gmock/gmock.h>

#include <algorithm>

#include "core/patience.h"
#include "engine/engine.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t kCostsSteps = 3;
constexpr double kLong = 10;  // seconds; the cost is never paid if the code is correct

class StepCostsTest : public EngineTest {
 protected:
  /// Returns the time for which each lane is busy; the training stage's lane is the last.
  std::vector<double> busy(const StepCosts& costs, const Plan& plan, const std::string& cut = "") {
    Tiny tiny;
    tiny.costs = costs;
    RunOptions options = steps(kCostsSteps);
    if (!cut.empty()) options.cut = Cut{cut, 1};
    std::vector<double> all;
    for (const LaneResult& lane : fresh_run(tiny, plan, options).lanes) all.push_back(lane.busy_s);
    return all;
  }
};

const StepCosts kAll = {.train_s = 0.02, .copy_s = 0.03, .hand_over_s = 0.04};

TEST_F(StepCostsTest, CostsAreSpentOnTrainingLaneInEveryPlan) {
  const Plan pipelined = build_plan(kThreeLanes, Driver::threaded, 3);
  EXPECT_GE(busy(kAll, serial_plan()).back(), kCostsSteps * 0.09);
  std::vector<double> lanes;
  // A lane with costs takes at least that time on any machine, but one without costs may be late by
  // chance; so that check is repeated.
  eventually("the lanes without costs are not busy", [&] {
    lanes = busy(kAll, pipelined);
    EXPECT_GE(lanes.back(), kCostsSteps * 0.09);
    return std::all_of(lanes.begin(), lanes.end() - 1,
                       [](double busy_s) { return busy_s < kCostsSteps * kAll.train_s; });
  });
  EXPECT_EQ(lanes.size(), 3U);
}

TEST_F(StepCostsTest, TrainCostIsSpentAfterEveryCut) {
  for (const char* cut : {"", "read", "collate", "copy", "encode"})
    EXPECT_GE(busy({.train_s = 0.02}, serial_plan(), cut).back(), kCostsSteps * 0.02) << cut;
}

TEST_F(StepCostsTest, CopyCostIsNotSpentOnBatchesCachedOnDevice) {
  for (const char* cut : {"", "read", "collate"})
    EXPECT_GE(busy({.copy_s = 0.02}, serial_plan(), cut).back(), kCostsSteps * 0.02) << cut;
  for (const char* cut : {"copy", "encode"})
    EXPECT_LT(busy({.copy_s = kLong}, serial_plan(), cut).back(), kLong) << cut;
}

TEST_F(StepCostsTest, HandOverCostIsNotSpentOnCachedBatches) {
  for (const char* cut : {"", "read", "decode"})
    EXPECT_GE(busy({.hand_over_s = 0.02}, serial_plan(), cut).back(), kCostsSteps * 0.02) << cut;
  for (const char* cut : {"collate", "copy", "encode"})
    EXPECT_LT(busy({.hand_over_s = kLong}, serial_plan(), cut).back(), kLong) << cut;
}

TEST_F(StepCostsTest, CostsDoNotChangeTheDigest) {
  Tiny tiny;
  const std::uint64_t free = fresh_run(tiny, serial_plan(), steps(kCostsSteps)).digest;
  tiny.costs = {.train_s = 0.001, .copy_s = 0.001, .hand_over_s = 0.001};
  EXPECT_EQ(fresh_run(tiny, serial_plan(), steps(kCostsSteps)).digest, free);
}

TEST_F(StepCostsTest, CostsOutsideZeroToTenSecondsAreRefused) {
  for (const auto& [bad, text] : {std::pair(-0.1, "-0.1"), {-1e-9, "-1e-09"}, {10.1, "10.1"}}) {
    Tiny tiny;
    tiny.costs.hand_over_s = bad;
    EXPECT_THAT(thrown_by([&] { tiny_pipeline(tiny); }),
                AllOf(StartsWith("Refused: "), HasSubstr("0 to 10 seconds"),
                      HasSubstr(std::string("each, not ") + text)));
  }
}

}  // namespace
}  // namespace slipstream::test
