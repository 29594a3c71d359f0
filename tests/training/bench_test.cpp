#include "training/bench.h"

#include <gmock/gmock.h>

#include <limits>
#include <new>
#include <stdexcept>

#include "slipstream/cli/workload.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class BenchTest : public testing::Test {
 protected:
  using Names = std::pair<std::string, std::string>;  ///< plan and device of the transforms

  BenchTest() {
    options_.batch_sizes = {2};
    options_.steps = 12;
    options_.repeats = 2;
    options_.seconds = 0.2;
    options_.numerics =
        make_plan("serial", {"copy", "train"}, DeviceKind::cpu, {{.num_workers = 1}}, {}).numerics;
  }

  std::vector<BenchRow> bench() {
    return run_bench(
        context_,
        [this](std::size_t batch_size) {
          if (batch_size == kBroken) throw std::bad_alloc();
          if (batch_size == kLosing) throw DeviceLost("the device is lost");
          Options options = find_options(built_in_workloads(), workload_);
          options.give("image-size", 8);
          if (workload_ == "classification") options.give("model", "encoder");
          options.give("classes", 5);
          options.batch_size = batch_size;
          return make_pipeline(built_in_workloads(), workload_, options);
        },
        options_);
  }

  static std::vector<std::string> list_plans(const std::vector<BenchRow>& rows) {
    std::vector<std::string> plans;
    for (const BenchRow& row : rows) plans.push_back(row.plan);
    return plans;
  }

  static std::vector<Names> list_variants(const std::vector<BenchRow>& rows) {
    std::vector<Names> variants;
    for (const BenchRow& row : rows) variants.emplace_back(row.plan, row.transforms_device);
    return variants;
  }

  static const Measured& find_rate(const std::vector<BenchRow>& rows, const Names& variant) {
    for (const BenchRow& row : rows)
      if (Names{row.plan, row.transforms_device} == variant) return row.steps_per_second.value();
    throw std::out_of_range(variant.first + ", " + variant.second);
  }

  static constexpr std::size_t kBroken = 7;
  static constexpr std::size_t kLosing = 9;
  std::string workload_ = "segmentation";
  Context context_{"cpu"};
  BenchOptions options_;
};

TEST_F(BenchTest, MeasuresPlansAndLanesForEveryInput) {
  for (const char* input : {"loader", "host", "device"}) {
    SCOPED_TRACE(input);
    options_.input = input;
    const auto rows = bench();
    ASSERT_THAT(list_plans(rows),
                ElementsAre("serial", "pipelined", "alone:copy", "alone:encoder", "alone:decoder"));
    for (const BenchRow& row : rows) {
      EXPECT_EQ(row.batch_size, 2U);
      EXPECT_THAT(row.error, IsEmpty());
      ASSERT_TRUE(row.steps_per_second.has_value());
      EXPECT_GT(row.steps_per_second->value, 0);
      EXPECT_LE(row.steps_per_second->low, row.steps_per_second->value);
      EXPECT_GE(row.steps_per_second->high, row.steps_per_second->value);
      const bool alone = row.plan.rfind("alone:", 0) == 0;
      if (!alone) {
        EXPECT_EQ(row.input, input);
      }
      EXPECT_EQ(row.gain.has_value(), !alone);
      EXPECT_EQ(row.share_of_slowest_lane.has_value(), !alone);
      EXPECT_EQ(row.overlap_efficiency.has_value(), row.plan == "pipelined");
    }
    EXPECT_DOUBLE_EQ(rows[0].gain->value, 1);
    EXPECT_DOUBLE_EQ(rows[1].gain->value,
                     rows[1].steps_per_second->value / rows[0].steps_per_second->value);
  }
}

TEST_F(BenchTest, MeasuresEveryPlanWithTransformsOnEachDevice) {
  workload_ = "classification";
  options_.transforms_devices = {"cpu", "cuda"};
  options_.batch_sizes = {2, 3};
  options_.repeats = 1;
  const auto rows = bench();
  const std::vector<Names> each = {
      {"serial", "cpu"},      {"serial", "cuda"},        {"pipelined", "cpu"},
      {"pipelined", "cuda"},  {"alone:copy", "cpu"},     {"alone:model", "cpu"},
      {"alone:copy", "cuda"}, {"alone:augment", "cuda"}, {"alone:model", "cuda"}};
  std::vector<Names> all = each;
  all.insert(all.end(), each.begin(), each.end());
  EXPECT_EQ(list_variants(rows), all);

  for (const std::size_t batch_size : {2, 3}) {
    std::vector<BenchRow> of_size;
    for (const BenchRow& row : rows)
      if (row.batch_size == batch_size) of_size.push_back(row);
    for (const BenchRow& row : of_size) {
      SCOPED_TRACE(row.plan + ", " + row.transforms_device);
      ASSERT_THAT(row.error, IsEmpty());
      const bool alone = row.plan.rfind("alone:", 0) == 0;
      const auto is_ratio_to = [&](const std::optional<Measured>& gain, const Names& base) {
        const Measured& other = find_rate(of_size, base);
        ASSERT_TRUE(gain.has_value());
        EXPECT_DOUBLE_EQ(gain->value, row.steps_per_second->value / other.value);
        EXPECT_LE(gain->low, gain->value);
        EXPECT_GE(gain->high, gain->value);
      };
      EXPECT_EQ(row.gain.has_value(), !alone);
      if (!alone) is_ratio_to(row.gain, {"serial", row.transforms_device});
      EXPECT_EQ(row.share_of_slowest_lane.has_value(), !alone);
      EXPECT_EQ(row.overlap_efficiency.has_value(), row.plan == "pipelined");
      EXPECT_EQ(row.offloading_gain.has_value(), !alone && row.transforms_device == "cuda");
      if (row.offloading_gain) is_ratio_to(row.offloading_gain, {row.plan, "cpu"});
    }
  }
}

TEST_F(BenchTest, ShareOfSlowestLaneUsesSameTransformsDevice) {
  workload_ = "classification";
  options_.transforms_devices = {"cuda"};
  options_.repeats = 1;
  const auto rows = bench();
  std::size_t shares = 0;
  for (const BenchRow& row : rows) {
    if (!row.share_of_slowest_lane) continue;
    ++shares;
    double slowest = std::numeric_limits<double>::infinity();
    for (const BenchRow& lane : rows)
      if (lane.plan.rfind("alone:", 0) == 0 && lane.transforms_device == row.transforms_device)
        slowest = std::min(slowest, lane.steps_per_second.value().value);
    EXPECT_DOUBLE_EQ(row.share_of_slowest_lane->value, row.steps_per_second->value / slowest)
        << row.plan << ", " << row.transforms_device;
    EXPECT_FALSE(row.offloading_gain) << "transforms on the CPU were not measured";
  }
  EXPECT_EQ(shares, 2U) << "only serial and pipelined have a share";
}

TEST_F(BenchTest, EmptyDuplicateOrUnknownListEntriesAreRefused) {
  options_.transforms_devices = {"cpu", "cudo"};
  EXPECT_THAT(thrown_by([&] { bench(); }),
              testing::AllOf(StartsWith("Refused: "), HasSubstr("did you mean 'cuda'?")));
  options_.transforms_devices = {"cuda", "cpu", "cuda"};
  EXPECT_EQ(thrown_by([&] { bench(); }), "Refused: transforms device 'cuda' is named twice");
  options_.transforms_devices = {};
  EXPECT_EQ(thrown_by([&] { bench(); }), "Refused: give at least one transforms device");
  options_.transforms_devices = {"cpu"};
  options_.plans = {"serial", "serial"};
  EXPECT_EQ(thrown_by([&] { bench(); }), "Refused: plan 'serial' is named twice");
}

TEST_F(BenchTest, FailingBatchSizeGivesRowWithError) {
  options_.batch_sizes = {2, 5000};
  const auto rows = bench();
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_THAT(rows[0].error, IsEmpty());
  EXPECT_EQ(rows[5].batch_size, 5000U);
  EXPECT_THAT(rows[5].error, HasSubstr("5000"));
  EXPECT_FALSE(rows[5].steps_per_second.has_value());
}

TEST_F(BenchTest, BadAllocGivesRowWithErrorAndBenchContinues) {
  options_.batch_sizes = {kBroken, 2};
  const auto rows = bench();
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_THAT(rows[0].error, HasSubstr("out of memory; use a smaller batch size"));
  EXPECT_THAT(rows[1].error, IsEmpty());
}

TEST_F(BenchTest, DeviceLostEndsBenchAndKeepsEarlierRows) {
  options_.batch_sizes = {2, kLosing, 3};
  const auto rows = bench();
  ASSERT_EQ(rows.size(), 6U) << "no batch size is measured after the device is lost";
  EXPECT_TRUE(rows[0].steps_per_second.has_value());
  EXPECT_EQ(rows[5].batch_size, kLosing);
  EXPECT_EQ(rows[5].error, "the device is lost");
}

TEST_F(BenchTest, RateWithoutSteadyStepsHasLowerBoundZero) {
  options_.steps = 3;
  options_.repeats = 8;
  const auto rows = bench();
  EXPECT_GT(rows[1].steps_per_second->value, 0);
  EXPECT_EQ(rows[1].steps_per_second->low, 0) << "3 steps on 3 lanes include no steady one";
}

TEST_F(BenchTest, RefusalOfFirstBatchSizeIsThrown) {
  options_.batch_sizes = {5000, 2};
  EXPECT_THAT(thrown_by([&] { bench(); }), StartsWith("Refused: batch size 5000 is larger"));
}

TEST_F(BenchTest, UnknownInputsAndPlansAreRefused) {
  options_.input = "hsot";
  EXPECT_THAT(thrown_by([&] { bench(); }), HasSubstr("did you mean 'host'?"));
  options_.input = "host";
  options_.plans = {"serial", "pipelned"};
  const std::string thrown = thrown_by([&] { bench(); });
  EXPECT_THAT(thrown, StartsWith("Refused: "));
  EXPECT_THAT(thrown, HasSubstr("did you mean 'pipelined'?"));
}

TEST_F(BenchTest, InterruptedBenchGivesRowsWithErrorInterrupted) {
  options_.stop = [] { return true; };
  const auto rows = bench();
  ASSERT_EQ(rows.size(), 5U);
  for (const BenchRow& row : rows) {
    EXPECT_EQ(row.error, "interrupted");
    EXPECT_FALSE(row.steps_per_second.has_value());
  }
}

TEST_F(BenchTest, InterruptedBenchRowsHaveEitherRateOrError) {
  int left = 40;
  options_.stop = [&] { return --left < 0; };
  const auto rows = bench();
  ASSERT_EQ(rows.size(), 5U);
  for (const BenchRow& row : rows)
    EXPECT_NE(row.error.empty(), !row.steps_per_second.has_value()) << row.plan;
}

TEST_F(BenchTest, LogsEveryMeasurement) {
  std::vector<std::string> lines;
  options_.log_line = [&](const std::string& line) { lines.push_back(line); };
  bench();
  ASSERT_EQ(lines.size(), 10U);
  EXPECT_EQ(lines.front(), "batch size 2, round 1/2: serial");
  EXPECT_EQ(lines.back(), "batch size 2, round 2/2: alone:decoder");
  workload_ = "classification";
  options_.transforms_devices = {"cpu", "cuda"};
  lines.clear();
  bench();
  // Two plans on each device, two lanes with "cpu" and three with "cuda"; they alternate.
  ASSERT_EQ(lines.size(), 18U);
  EXPECT_EQ(lines[0], "batch size 2, round 1/2: serial, transforms cpu");
  EXPECT_EQ(lines[1], "batch size 2, round 1/2: serial, transforms cuda");
  EXPECT_EQ(lines[9], "batch size 2, round 2/2: serial, transforms cpu");
}

}  // namespace
}  // namespace slipstream
