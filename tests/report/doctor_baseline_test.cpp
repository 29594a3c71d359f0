#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/doctor_samples.h"
#include "report/samples.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

const BaselineRow& baseline_row(const BaselineComparison& comparison, const std::string& name) {
  static const BaselineRow none;
  for (const BaselineRow& row : comparison.rows)
    if (row.name == name) return row;
  ADD_FAILURE() << "no row " << name;
  return none;
}

std::vector<std::string> worse_rows(const BaselineComparison& comparison) {
  std::vector<std::string> names;
  for (const BaselineRow& row : comparison.rows)
    if (row.is_worse) names.push_back(row.name);
  return names;
}

void set_rate(DoctorReport& report, double value, double low, double high) {
  report.diagnosis.rate = {value, low, high, "steps/s", 12};
}

TEST(Baseline, ReportIsNotWorseThanItself) {
  const DoctorReport report = starved_report();
  const BaselineComparison same = against_baseline(report, doctor_report_json(report));
  EXPECT_FALSE(is_worse(same));
  EXPECT_TRUE(same.differences.empty());
  std::vector<std::string> names;
  for (const BaselineRow& row : same.rows) {
    names.push_back(row.name);
    EXPECT_EQ(row.before.value, row.now.value);
  }
  EXPECT_THAT(names, testing::IsSupersetOf(
                         {"ceiling", "rate", "decoded sample", "decoded sample, loader alone",
                          "nothing cached, loader alone", "random_mask, ms a sample"}));
  EXPECT_THAT(names, testing::Not(testing::Contains("device batch")));
}

TEST(Baseline, RateIsWorseOnlyOutsideIntervalsAndByOverTwoPercent) {
  const DoctorReport before = starved_report();  // rate 0.890 [0.872, 0.908]
  const std::string baseline = doctor_report_json(before);
  const auto worse_at = [&](double value, double low, double high) {
    DoctorReport now = before;
    set_rate(now, value, low, high);
    return worse_rows(against_baseline(now, baseline));
  };
  EXPECT_THAT(worse_at(0.80, 0.79, 0.81), testing::ElementsAre("rate"));
  EXPECT_THAT(worse_at(0.80, 0.72, 0.88), testing::IsEmpty());
  EXPECT_THAT(worse_at(1.80, 1.79, 1.81), testing::IsEmpty());
  EXPECT_THAT(worse_at(0.80, NAN, NAN), testing::IsEmpty());
  EXPECT_THAT(worse_at(NAN, NAN, NAN), testing::IsEmpty());
  DoctorReport sure = before;
  set_rate(sure, 0.89, 0.889, 0.891);
  DoctorReport slightly = before;
  set_rate(slightly, 0.88, 0.879, 0.881);
  EXPECT_FALSE(is_worse(against_baseline(slightly, doctor_report_json(sure))));
}

TEST(Baseline, HigherCostIsWorse) {
  const DoctorReport before = starved_report();
  DoctorReport now = before;
  now.diagnosis.costs[0].wall_ms = {9.5, 9.4, 9.6, "ms", 64};
  now.diagnosis.costs[1].wall_ms = {0.1, 0.09, 0.11, "ms", 64};
  now.observed.levels[4].loader_alone = Measured{2.2, 2.1, 2.3, "steps/s", 12};
  EXPECT_THAT(worse_rows(against_baseline(now, doctor_report_json(before))),
              testing::ElementsAre("after convert_color, loader alone", "read, ms a sample"));
}

TEST(Baseline, NegligibleCostIsNeverWorse) {
  DoctorReport before = starved_report();
  CostRow& small = before.diagnosis.costs.front();
  small.wall_ms = {1e-4, 0.99e-4, 1.01e-4, "ms", 100};
  DoctorReport now = before;
  now.diagnosis.costs.front().wall_ms = {2e-4, 1.99e-4, 2.01e-4, "ms", 100};
  EXPECT_THAT(worse_rows(against_baseline(now, doctor_report_json(before))), testing::IsEmpty());
}

TEST(Baseline, RowOfOnlyOneReportIsKeptAndNotWorse) {
  const BaselineComparison comparison =
      against_baseline(failed_level_report(), doctor_report_json(starved_report()));
  EXPECT_EQ(baseline_row(comparison, "after random_mask").now.n, 0u);
  EXPECT_EQ(baseline_row(comparison, "after random_mask").before.value, 2.61);
  EXPECT_FALSE(baseline_row(comparison, "after random_mask").is_worse);
  const BaselineComparison other =
      against_baseline(starved_report(), doctor_report_json(failed_level_report()));
  EXPECT_EQ(baseline_row(other, "after random_mask").before.n, 0u);
  EXPECT_FALSE(is_worse(other));
}

TEST(Baseline, StepsWithSameNameAreNumbered) {
  DoctorReport before = starved_report();
  before.diagnosis.costs[3].name = before.diagnosis.costs[0].name = "resize";
  DoctorReport now = before;
  now.diagnosis.costs[3].wall_ms = {9.5, 9.4, 9.6, "ms", 64};
  EXPECT_THAT(worse_rows(against_baseline(now, doctor_report_json(before))),
              testing::ElementsAre("resize, ms a sample (2)"));
}

TEST(Baseline, MachineAndOptionDifferencesAreListed) {
  DoctorReport now = starved_report();
  now.environment.gpu.reset();
  now.environment.logical_cores = 8;
  now.workload.options.emplace_back("wire", std::string("image=jpeg"));
  now.workload.options[1].second = std::string("own");
  const BaselineComparison comparison = against_baseline(now, doctor_report_json(starved_report()));
  EXPECT_THAT(comparison.differences,
              testing::ElementsAre("GPU: NVIDIA H200 before, none now", "cores: 16 before, 8 now",
                                   "costs: article before, own now",
                                   "wire: not given before, image=jpeg now"));
  EXPECT_THAT(baseline_text(comparison), HasSubstr("not the same: cores: 16 before, 8 now\n"));
}

TEST(Baseline, TextIsTableThatMarksWorseRate) {
  const DoctorReport before = starved_report();
  DoctorReport now = before;
  set_rate(now, 0.445, 0.44, 0.45);
  const std::string text = baseline_text(against_baseline(now, doctor_report_json(before)));
  EXPECT_THAT(text, HasSubstr("\nrate "));
  EXPECT_THAT(text, HasSubstr("0.890 [0.872, 0.908]  0.445 [0.440, 0.450]   -50 %  WORSE\n"));
  EXPECT_THAT(text, testing::StartsWith("figure "));
}

TEST(Baseline, PlanDifferencesAreListed) {
  DoctorReport now = starved_report();
  now.observed.situation.plan.schedule.loader.num_workers += 3;
  now.observed.situation.plan.schedule.loader.cache = CacheOptions{"decode", 1 << 20};
  const BaselineComparison comparison = against_baseline(now, doctor_report_json(starved_report()));
  EXPECT_THAT(comparison.differences,
              testing::IsSupersetOf({HasSubstr("plan/schedule/loader/num_workers: "),
                                     HasSubstr("plan/schedule/loader/cache")}));
}

TEST(Baseline, ReportWithFormerNameOfVerdictIsRead) {
  const DoctorReport report = full_speed_report();
  std::string baseline = doctor_report_json(report);
  const std::string now = R"("verdict": "device")";
  const std::size_t at = baseline.find(now);
  ASSERT_NE(at, std::string::npos);
  baseline.replace(at, now.size(), R"("verdict": "gpu")");
  EXPECT_FALSE(is_worse(against_baseline(report, baseline)));
}

TEST(Baseline, OtherBatchSizeIsRefusedBeforeMeasuring) {
  DoctorReport unmeasured;
  unmeasured.workload = starved_report().workload;
  unmeasured.observed.batch_size = starved_report().observed.batch_size;
  const std::string baseline = doctor_report_json(starved_report());
  EXPECT_FALSE(is_worse(against_baseline(unmeasured, baseline)));
  unmeasured.observed.batch_size = 8;
  EXPECT_THAT(thrown_by([&] { (void)against_baseline(unmeasured, baseline); }),
              testing::AllOf(testing::StartsWith("Refused"), HasSubstr("has another batch size")));
}

TEST(Baseline, OtherFilesWorkloadsAndBatchSizesAreRefused) {
  const DoctorReport report = starved_report();
  const auto refusal = [&report](const std::string& baseline) {
    return thrown_by([&] { (void)against_baseline(report, baseline); });
  };
  EXPECT_THAT(refusal(""),
              testing::AllOf(testing::StartsWith("Refused"), HasSubstr("it is not JSON")));
  EXPECT_THAT(refusal("[1]"), HasSubstr("it is JSON of another kind"));
  EXPECT_THAT(refusal(run_report_json(sample_run())), HasSubstr("it is a slipstream.run"));
  EXPECT_THAT(refusal(R"({"schema": "slipstream.doctor", "version": 2})"),
              HasSubstr("its version is not 1"));
  EXPECT_THAT(refusal(R"({"schema": "slipstream.doctor", "version": 1})"),
              HasSubstr("keys are missing or have another type (docs/doctor-json.md)"));
  DoctorReport other = report;
  other.workload.name = "segmentation";
  EXPECT_THAT(refusal(doctor_report_json(other)),
              HasSubstr("has another workload: \"segmentation\", this report has \"starved\""));
  other = report;
  other.observed.batch_size = 8;
  EXPECT_THAT(refusal(doctor_report_json(other)), HasSubstr("has another batch size: 8"));
}

TEST(Baseline, EverySampleReportComparesWithItself) {
  for (const auto& [name, report] : all_doctor_reports()) {
    const BaselineComparison same = against_baseline(report, doctor_report_json(report));
    EXPECT_FALSE(is_worse(same)) << name;
    EXPECT_THAT(baseline_text(same), testing::Not(HasSubstr("nan"))) << name;
  }
}

}  // namespace
}  // namespace slipstream
