#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/samples.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::Not;

Measured around(double value, const char* unit) {
  return {value, 0.75 * value, 1.25 * value, unit, 5};
}

BenchRow row_of(std::size_t batch_size, const std::string& plan, double rate) {
  BenchRow row;
  row.batch_size = batch_size;
  row.plan = plan;
  row.input = "loader";
  row.steps_per_second = around(rate, "steps/s");
  return row;
}

BenchReport sample_bench() {
  BenchReport report{sample_environment(), sample_workload(), {"bf16", true, 3, 100, 2.5, 4}, {}};
  report.rows = {row_of(8, "serial", 400),         row_of(8, "pipelined", 500),
                 row_of(8, "alone:copy", 9000),    row_of(8, "alone:decode", 625),
                 row_of(128, "serial", 40),        row_of(128, "pipelined", 0),
                 row_of(128, "alone:decode", 62.5)};
  report.rows[1].gain = around(1.25, "ratio");
  report.rows[1].share_of_slowest_lane = around(0.8, "ratio");
  report.rows[1].overlap_efficiency = measured_once(0.5, "ratio");
  report.rows[5].steps_per_second.reset();
  report.rows[5].error = "out of device memory";
  return report;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(BenchTable, IsAligned) {
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
)");
}

TEST(BenchTable, SaysWhichBatchSizeHadNoPlanAtAll) {
  BenchReport report = sample_bench();
  report.rows = {{128, "", "loader", {}, {}, {}, {}, "too large"}};
  EXPECT_THAT(bench_table(report), HasSubstr("\nfailed: batch 128, input loader: too large\n"));
}

TEST(BenchJson, HasAllRowsInOneShape) {
  const auto json = nlohmann::json::parse(bench_report_json(sample_bench()));
  EXPECT_EQ(json.at("schema"), "slipstream.bench");
  EXPECT_EQ(json.at("version"), 1);
  EXPECT_EQ(json.at("environment").at("cpu").at("model"), "A CPU");
  EXPECT_EQ(json.at("workload").at("name"), "segmentation");
  EXPECT_EQ(json.at("settings"), nlohmann::json::parse(
                                     R"({"precision": "bf16", "deterministic": true, "workers": 3,
                                         "steps": 100, "seconds": 2.5, "repeats": 4})"));
  ASSERT_EQ(json.at("rows").size(), 7u);
  for (const auto& row : json.at("rows")) EXPECT_EQ(row.size(), 8u);
  const auto& pipelined = json.at("rows").at(1);
  EXPECT_EQ(pipelined.at("gain").at("value"), 1.25);
  EXPECT_EQ(pipelined.at("gain").at("n"), 5);
  EXPECT_TRUE(pipelined.at("overlap_efficiency").at("low").is_null());
  EXPECT_TRUE(pipelined.at("error").is_null());
  EXPECT_EQ(json.at("rows").at(5).at("error"), "out of device memory");
  EXPECT_TRUE(json.at("rows").at(5).at("steps_per_second").is_null());
}

TEST(BenchSvg, DrawsBarsGainsAndALegend) {
  const std::string svg = bench_svg(sample_bench());
  EXPECT_THAT(svg, testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(svg, HasSubstr("<title>pipelined, batch 8: 500.0 [375.0, 625.0] steps/s</title>"));
  EXPECT_THAT(svg, HasSubstr(">1.25\u00d7</text>"));
  EXPECT_THAT(svg, HasSubstr("A GPU, input: loader, revision 0123456789ab-dirty."));
  EXPECT_EQ(count(svg, ">batch size</text>"), 2u);
  EXPECT_EQ(count(svg, "<rect"), 1u + 3u + 5u);  // page, legend, bars
  EXPECT_EQ(count(svg, "<circle"), 1u);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(BenchSvg, LeavesOutLanesThatAreNotTheSlowest) {
  const std::string svg = bench_svg(sample_bench());
  EXPECT_THAT(svg, Not(HasSubstr("alone:copy")));
  EXPECT_THAT(svg, HasSubstr("alone:decode"));
}

TEST(BenchSvg, NamesTheInputsWhereThereAreSeveral) {
  BenchReport report = sample_bench();
  report.rows[0].input = "device";
  EXPECT_THAT(bench_svg(report), HasSubstr(">serial, device</text>"));
}

TEST(BenchSvg, EscapesNames) {
  BenchReport report = sample_bench();
  report.workload.name = "<a & \"b\">";
  EXPECT_THAT(bench_svg(report), HasSubstr("Slipstream: &lt;a &amp; &quot;b&quot;&gt;"));
}

TEST(BenchSvg, DrawsWithoutRowsAndWithoutGains) {
  BenchReport report = sample_bench();
  report.rows.resize(1);
  EXPECT_EQ(count(bench_svg(report), ">batch size</text>"), 1u);
  report.rows.clear();
  EXPECT_THAT(bench_svg(report), testing::EndsWith("</svg>\n"));
}

}  // namespace
}  // namespace slipstream
