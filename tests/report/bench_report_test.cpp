#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/samples.h"
#include "support/count_in.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::Not;

Measured make_measured(double value, const char* unit) {
  return {value, 0.75 * value, 1.25 * value, unit, 5};
}

BenchRow make_row(std::size_t batch_size, const std::string& plan, double rate) {
  BenchRow row;
  row.batch_size = batch_size;
  row.plan = plan;
  row.input = "loader";
  row.steps_per_second = make_measured(rate, "steps/s");
  return row;
}

BenchReport sample_bench() {
  BenchReport report{sample_environment(), sample_workload(), {"bf16", true, 3, 100, 2.5, 4}, {}};
  report.rows = {make_row(8, "serial", 400),         make_row(8, "pipelined", 500),
                 make_row(8, "alone:copy", 9000),    make_row(8, "alone:decode", 625),
                 make_row(128, "serial", 40),        make_row(128, "pipelined", 0),
                 make_row(128, "alone:decode", 62.5)};
  report.rows[1].gain = make_measured(1.25, "ratio");
  report.rows[1].share_of_slowest_lane = make_measured(0.8, "ratio");
  report.rows[1].overlap_efficiency = measured_once(0.5, "ratio");
  report.rows[5].steps_per_second.reset();
  report.rows[5].error = "out of device memory";
  return report;
}

TEST(BenchTable, ColumnsAreAligned) {
  EXPECT_EQ(
      bench_table(sample_bench()),
      R"(batch  plan          input   steps/s               gain                  of slowest lane          overlap
    8  serial        loader  400.0 [300.0, 500.0]
    8  pipelined     loader  500.0 [375.0, 625.0]  1.250 [0.938, 1.562]  0.8000 [0.6000, 1.0000]  0.5000
    8  alone:copy    loader  9000 [6750, 11250]
    8  alone:decode  loader  625.0 [468.8, 781.2]
  128  serial        loader  40.00 [30.00, 50.00]
  128  pipelined     loader  failed
  128  alone:decode  loader  62.50 [46.88, 78.12]
failed: pipelined, batch 128, input loader: out of device memory
warning: the machine was busy
)");
}

TEST(BenchTable, InterruptedRowIsNotListedAsFailed) {
  BenchReport report = sample_bench();
  report.rows[5].error = kInterruptedRow;
  const std::string table = bench_table(report);
  EXPECT_THAT(table, HasSubstr("\n  128  pipelined     loader  interrupted\n"));
  EXPECT_THAT(table, Not(HasSubstr("failed")));
}

/// A report with every plan, transforms on each device, and two batch sizes.
BenchReport bench_with_transforms_devices() {
  BenchReport report = sample_bench();
  report.rows.clear();
  for (const std::size_t size : {8, 16}) {
    const auto add = [&](const std::string& plan, const std::string& device, double rate) {
      report.rows.push_back(make_row(size, plan, rate));
      report.rows.back().transforms_device = device;
      return &report.rows.back();
    };
    add("serial", "cpu", 100);
    add("serial", "cuda", 200)->offloading_gain = make_measured(2, "1");
    add("pipelined", "cpu", 125);
    add("pipelined", "cuda", 250)->offloading_gain = make_measured(2.125, "1");
    add("alone:model", "cpu", 300);
    add("alone:copy", "cuda", 9000)->input = "host";
    add("alone:model", "cuda", 500)->input = "device";
  }
  return report;
}

TEST(BenchTable, TransformsDeviceIsShownIfSeveralAreUsed) {
  BenchReport report = bench_with_transforms_devices();
  report.rows.resize(4);
  EXPECT_EQ(bench_table(report),
            R"(batch  plan       transforms  input   steps/s               offloading
    8  serial     cpu         loader  100.0 [75.0, 125.0]
    8  serial     cuda        loader  200.0 [150.0, 250.0]  2.000 [1.500, 2.500]
    8  pipelined  cpu         loader  125.0 [93.8, 156.2]
    8  pipelined  cuda        loader  250.0 [187.5, 312.5]  2.125 [1.594, 2.656]
warning: the machine was busy
)");
  report.rows[1].error = "no memory";
  EXPECT_THAT(bench_table(report),
              HasSubstr("\nfailed: serial, transforms cuda, batch 8, input loader: no memory\n"));
}

TEST(BenchTable, FailureWithoutPlanNamesBatchSize) {
  BenchReport report = sample_bench();
  report.rows.resize(1);
  report.rows[0] = {};
  report.rows[0].batch_size = 128;
  report.rows[0].input = "loader";
  report.rows[0].error = "too large";
  EXPECT_THAT(bench_table(report), HasSubstr("\nfailed: batch 128, input loader: too large\n"));
}

TEST(BenchJson, AllRowsHaveTheSameNumberOfKeys) {
  const auto json = nlohmann::json::parse(bench_report_json(sample_bench()));
  EXPECT_EQ(json.at("schema"), "slipstream.bench");
  EXPECT_EQ(json.at("version"), 1);
  EXPECT_EQ(json.at("environment").at("cpu").at("model"), "A CPU");
  EXPECT_EQ(json.at("workload").at("name"), "segmentation");
  EXPECT_EQ(json.at("settings"),
            nlohmann::json::parse(
                R"({"precision": "bf16", "deterministic": true, "num_workers": 3,
                                         "steps": 100, "seconds": 2.5, "repeats": 4})"));
  ASSERT_EQ(json.at("rows").size(), 7u);
  for (const auto& row : json.at("rows")) EXPECT_EQ(row.size(), 10u);
  const auto& pipelined = json.at("rows").at(1);
  EXPECT_EQ(pipelined.at("gain").at("value"), 1.25);
  EXPECT_EQ(pipelined.at("gain").at("n"), 5);
  EXPECT_EQ(pipelined.at("transforms_device"), "cpu");
  EXPECT_TRUE(pipelined.at("offloading_gain").is_null());
  const auto placed =
      nlohmann::json::parse(bench_report_json(bench_with_transforms_devices())).at("rows");
  EXPECT_EQ(placed.at(3).at("transforms_device"), "cuda");
  EXPECT_EQ(placed.at(3).at("offloading_gain").at("value"), 2.125);
  EXPECT_TRUE(pipelined.at("overlap_efficiency").at("low").is_null());
  EXPECT_TRUE(pipelined.at("error").is_null());
  EXPECT_EQ(json.at("rows").at(5).at("error"), "out of device memory");
  EXPECT_TRUE(json.at("rows").at(5).at("steps_per_second").is_null());
}

TEST(BenchSvg, DrawsBarsGainsAndLegend) {
  const std::string svg = bench_svg(sample_bench());
  for (const char* words :
       {"<svg xmlns=\"http://www.w3.org/2000/svg\"", "prefers-color-scheme: dark",
        "<title>pipelined, batch 8: 500.0 [375.0, 625.0] steps/s</title>", ">1.25\u00d7</text>",
        "A GPU, input: loader, revision 0123456789ab-dirty.",
        ">warning: the machine was busy</text>", "alone:decode"})
    EXPECT_THAT(svg, HasSubstr(words));
  for (const char* words : {"alone:copy", "nan", "inf"}) EXPECT_THAT(svg, Not(HasSubstr(words)));
  EXPECT_EQ(count_in(svg, ">batch size</text>"), 2u);
  EXPECT_EQ(count_in(svg, "<rect"), 1u + 3u + 5u);  // page, legend entries and bars
  EXPECT_EQ(count_in(svg, "<circle"), 1u);
}

TEST(BenchSvg, DrawsOffloadingGains) {
  const std::string svg = bench_svg(bench_with_transforms_devices());
  for (const char* series :
       {"serial, transforms cpu", "serial, transforms cuda", "pipelined, transforms cpu",
        "pipelined, transforms cuda", "alone:model, transforms cuda"})
    EXPECT_EQ(count_in(svg, ">" + std::string(series) + "</text>"), 1u) << series;
  EXPECT_THAT(svg, Not(HasSubstr("alone:model, transforms cpu")));
  EXPECT_THAT(svg, Not(HasSubstr("gain over serial")));
  EXPECT_EQ(count_in(svg, ">offloading gain"), 1u);
  EXPECT_EQ(count_in(svg, "<circle"), 4u);    // two gains for each batch size
  EXPECT_EQ(count_in(svg, "<polyline"), 2u);  // each line connects the batch sizes
  EXPECT_THAT(svg,
              HasSubstr("<title>pipelined, transforms cuda, batch 8: 2.125 [1.594, 2.656] 1<"));
}

TEST(BenchSvg, NumberOfPanelsDependsOnReportContents) {
  BenchReport all_gains = bench_with_transforms_devices(), inputs = sample_bench(),
              names = sample_bench();
  for (BenchRow& row : all_gains.rows) row.gain = make_measured(1, "1");
  inputs.rows[0].input = "device";
  names.workload.name = "<a & \"b\">";
  BenchReport one = sample_bench(), none = sample_bench();
  one.rows.resize(1);
  none.rows.clear();
  const struct {
    const BenchReport& report;
    std::string says;
    std::size_t panels;
  } cases[] = {{all_gains, "gain over serial", 3},
               {inputs, ">serial, device</text>", 2},
               {names, "Slipstream: &lt;a &amp; &quot;b&quot;&gt;", 2},
               {one, "serial", 1},
               {none, "</svg>\n", 1}};
  for (const auto& each : cases) {
    const std::string svg = bench_svg(each.report);
    EXPECT_THAT(svg, HasSubstr(each.says));
    EXPECT_EQ(count_in(svg, ">batch size</text>"), each.panels) << each.says;
  }
}

}  // namespace
}  // namespace slipstream
