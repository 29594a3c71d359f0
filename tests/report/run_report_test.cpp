#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "report/json_keys.h"
#include "report/samples.h"

namespace slipstream {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

Json parsed(const RunReport& report) { return Json::parse(run_report_json(report)); }

TEST(RunReport, MatchesExpectedJson) {
  EXPECT_EQ(run_report_json(sample_run()), R"({
  "schema": "slipstream.run",
  "version": 1,
  "environment": {
    "time": "2025-06-01T12:34:56Z",
    "slipstream": "0.1.0",
    "revision": "0123456789abcdef-dirty",
    "compiler": "g++ 12.2.0",
    "libtorch": "2.11.0",
    "os": "Linux 6.1 x86_64",
    "cpu": {"model": "A CPU", "logical_cores": 16, "memory_bytes": 1073741824},
    "gpu": {"name": "A GPU", "driver": "580.1", "runtime": "13.0", "compute_capability": "9.0", "memory_bytes": 1073741824},
    "warnings": ["the machine was busy"]
  },
  "workload": {
    "name": "segmentation",
    "options": {"batch-size": 8, "lr": 0.25, "plan": "pipelined", "deterministic": true}
  },
  "plan": {
    "version": 1,
    "schedule": {
      "mode": "serial",
      "lanes": [
        {
          "steps": ["copy", "decode"],
          "priority": 2
        }
      ],
      "depth": 1,
      "run_ahead": 2,
      "driver": "threaded",
      "graphs": false,
      "loader": {
        "num_workers": 2,
        "prefetch_batches": 4,
        "pin_memory": true,
        "wire": {},
        "read_ahead": {"reads": 0, "chunk_bytes": 0},
        "cpus": "",
        "cache": null,
        "on_device": ""
      }
    },
    "numerics": {
      "precision": "tf32",
      "channels_last": true,
      "deterministic": false,
      "cudnn_benchmark": true,
      "intra_op_threads": {"*": 1},
      "wire": {},
      "scaled_decoding": false
    }
  },
  "first_step": 0,
  "steps": 3,
  "interrupted": false,
  "wall_s": 1.5,
  "steps_per_second": {"value": 2.0, "low": 1.5, "high": 2.5, "unit": "steps/s", "n": 9},
  "losses": [2.3, null, 0.1],
  "accuracies": [0.25, 0.5, 1.0],
  "digest": "0000000000abcdef",
  "input_wait_share": 0.125,
  "memory": {"peak_bytes": 4096, "reserved_bytes": 8192, "reserved_after_warm_up_bytes": 8192, "predicted_extra_bytes": 1024},
  "skipped": {
    "replacements": 3,
    "samples": [
      {"sample": 7, "message": "corrupt"}
    ],
    "tolerated": [
      {"sample": 8, "message": "extraneous bytes"}
    ]
  },
  "overlap": null,
  "gains": [
    {
      "part": "train.fork",
      "predicted": {"value": 1.5, "low": 1.25, "high": 1.75, "unit": "1", "n": 3},
      "measured": {"value": 1.25, "low": 1.0, "high": 1.5, "unit": "1", "n": 3},
      "chosen": "streams",
      "reason": "faster"
    },
    {
      "part": "loading",
      "predicted": {"value": 2.0, "low": null, "high": null, "unit": "1", "n": 1},
      "measured": {"value": 1.75, "low": 1.5, "high": 2.0, "unit": "1", "n": 3},
      "chosen": null,
      "reason": null
    }
  ],
  "jpeg": {"images": 24, "on_cpu": 3, "engines": true},
  "graphs": null,
  "cache": {"samples": 12, "bytes": 4096, "hits": 20, "misses": 12, "is_filling": true},
  "disk_cache": {"bytes": 2048, "hits": 8, "misses": 4, "stored": 3, "stop_reason": "full"},
  "counters": [
    {"name": "decode", "calls": 24, "wall_s": 0.5, "cpu_s": 0.25, "bytes": 1048576}
  ],
  "lanes": [
    {
      "name": "train",
      "steps": ["copy", "decode"],
      "busy_s": 1.0,
      "waiting_s": 0.5,
      "last_intervals": [
        {"step": 2, "begin_s": 1.25, "end_s": 1.5}
      ]
    }
  ],
  "gpu": {
    "sm_activity": {"value": 0.5, "low": null, "high": null, "unit": "share", "n": 1},
    "dram_use": null,
    "gpu_utilization": null,
    "note": "no DRAM counter"
  },
  "auto": null
}
)");
}

TEST(RunReport, GpuIsNullWithoutGpu) {
  RunReport report = sample_run();
  report.environment.gpu.reset();
  report.gpu.reset();
  const Json json = parsed(report);
  EXPECT_TRUE(json.at("environment").at("gpu").is_null());
  EXPECT_TRUE(json.at("gpu").is_null());
}

TEST(RunReport, CacheAndStopReasonAreNullIfUnset) {
  RunReport report = sample_run();
  report.result.cache.reset();
  report.result.disk_cache->stop_reason = "";
  const Json json = parsed(report);
  EXPECT_TRUE(json.at("cache").is_null());
  EXPECT_TRUE(json.at("disk_cache").at("stop_reason").is_null());
}

TEST(RunReport, AutoChoiceAndOverlapAreReported) {
  RunReport report = sample_run();
  const Measured rate = {2, 1, 3, "steps/s", 4};
  report.auto_choice = AutoChoice{"serial", "pipelined was slower", rate, rate};
  report.result.overlap =
      Overlap{{0.75, 0.5, 1, "share", 4}, rate, {{"copy", rate}, {"train", rate}}};
  const Json json = parsed(report);
  EXPECT_THAT(list_keys(json.at("auto")), ElementsAre("chosen", "reason", "serial", "pipelined"));
  const Json& overlap = json.at("overlap");
  EXPECT_EQ(overlap.at("efficiency").at("value"), 0.75);
  EXPECT_EQ(overlap.at("serial_steps_per_second").at("n"), 4);
  EXPECT_EQ(overlap.at("alone").at(1).at("lane"), "train");
  EXPECT_EQ(overlap.at("alone").at(1).at("steps_per_second").at("high"), 3);
}

TEST(RunReport, UnmeasuredValuesAreNull) {
  RunReport report;
  report.result.steps_per_second.unit = "steps/s";
  report.result.input_wait_share = INFINITY;
  const Json json = parsed(report);
  const Json& rate = json.at("steps_per_second");
  EXPECT_THAT(list_keys(rate), ElementsAre("value", "low", "high", "unit", "n"));
  for (const char* key : {"value", "low", "high"}) EXPECT_TRUE(rate.at(key).is_null());
  EXPECT_TRUE(json.at("input_wait_share").is_null());
  EXPECT_TRUE(json.at("losses").empty());
  EXPECT_TRUE(json.at("losses").is_array());
}

TEST(RunReport, LossesRoundTripBitForBit) {
  RunReport report = sample_run();
  report.result.losses = {0.1f, 1e-30f, 3.4028235e38f, 1.0f / 3};
  const Json losses = parsed(report).at("losses");
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_EQ(losses[i].get<float>(), report.result.losses[i]);
}

TEST(RunReport, InvalidUtf8IsReplaced) {
  RunReport report = sample_run();
  report.workload.options = {{"data", std::string("/tmp/\xff")}};
  report.result.plan.schedule.lanes[0].steps = {"\xfe"};
  EXPECT_EQ(parsed(report).at("workload").at("options").at("data"), "/tmp/\xef\xbf\xbd");
}

TEST(GainLine, ShowsMeasuredAndPredictedGain) {
  Gain gain;
  gain.part = "loading";
  gain.predicted = {1.8, NAN, NAN, "1", 1};
  gain.measured = {1.714, 1, 2, "1", 9};
  EXPECT_EQ(gain_line(gain), "Loading overlapped training: 1.71x (limit 1.80x)\n");
  gain.part = "members";
  gain.measured.value = 1.9;
  gain.chosen = "streams";
  gain.reason = "faster";
  EXPECT_EQ(gain_line(gain),
            "members: streams, faster; branches on separate streams: 1.90x (limit 1.80x)\n");
  gain.measured.n = 0;
  EXPECT_EQ(gain_line(gain), "members: streams, faster\n");
}

TEST(Comparison, RowsAreComparedWithFirstRow) {
  RunResult serial = sample_run().result;
  serial.losses = {2.25f, 1.0f};
  RunResult pipelined = serial;
  pipelined.plan =
      make_plan("pipelined", {"copy", "decode"}, DeviceKind::cuda, {{.num_workers = 2}}, {});
  pipelined.steps_per_second = {3, 2.625, 3.5, "steps/s", 9};
  pipelined.input_wait_share = 0;
  RunResult wrong = pipelined;
  wrong.digest = 1;
  RunResult bf16 = wrong;
  bf16.plan.numerics.precision = Precision::bf16;
  bf16.losses.clear();
  bf16.steps_per_second = {};
  EXPECT_EQ(
      comparison_table({comparison_row("first", serial), comparison_row("second", pipelined),
                        comparison_row("wrong", wrong), comparison_row("bf16", bf16)}),
      R"(report  plan       steps/s                gain  input wait  loss       weights and losses
first   serial     2.000 [1.500, 2.500]             12.5 %  2.25 -> 1  the reference
second  pipelined  3.000 [2.625, 3.500]  1.50x       0.0 %  2.25 -> 1  equal, bit for bit
wrong   pipelined  3.000 [2.625, 3.500]  1.50x       0.0 %  2.25 -> 1  DIFFERENT
bf16    pipelined  -                         -       0.0 %  - -> -     not comparable: different numerics
)");
}

TEST(Comparison, GainWithinNoiseIsMarkedAndTooShortRunHasNone) {
  RunResult serial = sample_run().result;
  RunResult pipelined = serial;
  pipelined.steps_per_second = {2.5, 2.375, 2.625, "steps/s", 9};
  const auto table = [&] {
    return comparison_table({comparison_row("a", serial), comparison_row("b", pipelined)});
  };
  EXPECT_THAT(table(), HasSubstr("  1.25x (within the noise)  "));
  pipelined.steps_per_second.n = kFewestStepsForARate - 1;
  EXPECT_THAT(table(), testing::Not(HasSubstr("1.25x")));
  EXPECT_EQ(reportable_rate(pipelined.steps_per_second).n, 0U);
}

TEST(LossTrend, ComparesMeansOfFirstAndLastTenth) {
  std::vector<float> losses(25, 1.0f);
  losses[0] = 4;
  losses[1] = 2;
  losses[24] = 0.5f;
  EXPECT_EQ(loss_text(losses), "loss 3 -> 0.75 (means of the first and last 2 steps)");
  EXPECT_EQ(loss_text(std::span(losses).last(3)), "loss 1 -> 0.5 (the first and the last step)");
  EXPECT_EQ(loss_text({}), "");
}

TEST(LossText, FormatsLossesOfAnyMagnitude) {
  EXPECT_THAT(loss_text(std::array{1.23456e-5f, 3e38f}), HasSubstr("loss 1.235e-05 -> 3e+38 ("));
  EXPECT_THAT(loss_text(std::array{2.30149f, INFINITY}), HasSubstr("loss 2.301 -> inf ("));
}

TEST(Comparison, RowFromJsonMatchesRowFromResult) {
  const RunReport report = sample_run();
  const ComparisonRow row = comparison_row("serial", run_report_json(report));
  EXPECT_EQ(row.plan, report.result.plan);
  EXPECT_EQ(row.digest, report.result.digest);
  EXPECT_EQ(row.input_wait_share, report.result.input_wait_share);
  EXPECT_EQ(row.steps_per_second.high, 2.5);
  ComparisonRow same = comparison_row("serial", report.result);
  same.warnings = report.environment.warnings;
  EXPECT_EQ(comparison_table({row}), comparison_table({same}));
}

TEST(Comparison, EnvironmentWarningsAreListedPerReport) {
  RunReport report = sample_run();
  report.environment.warnings = {"the machine was busy", "the clock is scaled"};
  const ComparisonRow warned = comparison_row("a", run_report_json(report));
  report.environment.warnings.clear();
  const ComparisonRow calm = comparison_row("b", run_report_json(report));
  EXPECT_THAT(comparison_table({warned, calm}),
              testing::EndsWith("\nwarning: a: the machine was busy; the clock is scaled\n"));
  EXPECT_THAT(comparison_table({calm, calm}), testing::Not(HasSubstr("warning")));
}

TEST(Comparison, DifferencesBetweenRunsAreListed) {
  RunReport report = sample_run();
  const ComparisonRow first = comparison_row("a", run_report_json(report));
  report.result.steps = 150;
  report.workload.options[0].second = std::int64_t{4};
  report.auto_choice = AutoChoice{"serial", "it was faster", {}, {}};
  const std::string table = comparison_table({first, comparison_row("b", run_report_json(report))});
  EXPECT_THAT(table, HasSubstr("\nb       serial (auto)  2.000"));
  EXPECT_THAT(table, HasSubstr("\nnot the same run: batch-size 8 and 4, steps 3 and 150 (a, b)\n"));
  EXPECT_THAT(comparison_table({first, first}), testing::Not(HasSubstr("not the same")));
}

TEST(Comparison, OtherFilesAreRefusedWithTheirKind) {
  const std::pair<std::string, const char*> others[] = {
      {"", "it is not JSON"},
      {"{", "it is not JSON"},
      {"{}", "it is JSON of another kind"},
      {"[]", "it is JSON of another kind"},
      {R"({"schema": 1})", "it is JSON of another kind"},
      {R"({"schema": "slipstream.bench", "version": 1})", "it is a report of bench"},
      {to_json_text(sample_run().result.plan), "it is a plan"},
      {R"({"schema": "slipstream.run", "version": 2})", "it is not of version 1"},
      {R"({"schema": "slipstream.run", "version": 1})", "keys are missing"}};
  for (const auto& [text, what] : others) {
    try {
      comparison_row("x", text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string("not a report of a run: ") + what)) << text;
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("json.exception"))) << text;
    }
  }
}

TEST(RunReport, ClassNamesAreIncludedOnlyIfKnown) {
  RunReport report = sample_run();
  EXPECT_FALSE(parsed(report).contains("class_names"));
  report.class_names = {"cat", "dog"};
  EXPECT_EQ(parsed(report).at("class_names"), Json({"cat", "dog"}));
}

}  // namespace
}  // namespace slipstream
