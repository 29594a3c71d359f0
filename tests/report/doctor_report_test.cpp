#include "report/doctor_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "report/doctor_samples.h"
#include "report/doctor_words.h"
#include "report/json_keys.h"
#include "report/page_data.h"

namespace slipstream {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Json parsed(const DoctorReport& report) { return Json::parse(doctor_report_json(report)); }

/// Returns the line of `text` that begins, after spaces, with `words`.
std::string find_line(const std::string& text, const std::string& words) {
  const std::size_t at = text.find("\n  " + words);
  if (at == std::string::npos) return "";
  return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

TEST(Bottleneck, NamesRoundTripAndUnknownNamesAreRefused) {
  for (const char* name :
       {"device", "copy", "transforms", "collate", "part", "decode", "read", "launch_overhead",
        "lock_contention", "memory_bandwidth", "none", "not_enough_evidence"})
    EXPECT_EQ(to_string(bottleneck_named(name)), name);
  EXPECT_THROW(bottleneck_named("transform"), Refused);
  EXPECT_THROW(bottleneck_named(""), Refused);
}

TEST(DoctorJson, HasExpectedKeysInOrder) {
  const Json json = parsed(starved_report());
  EXPECT_EQ(json.at("schema"), "slipstream.doctor");
  EXPECT_EQ(json.at("version"), 1);
  EXPECT_THAT(
      list_keys(json),
      ElementsAre("schema", "version", "environment", "workload", "plan", "budget", "interrupted",
                  "verdict", "reason", "bottlenecks", "ceiling", "rate", "share", "cores_needed",
                  "model_error", "levels", "costs", "device", "changes", "outcome", "utilization",
                  "loader", "lanes", "ranks", "warnings"));
  EXPECT_THAT(list_keys(json.at("levels").at(0)),
              ElementsAre("name", "after", "items", "with_training", "loader_alone", "error",
                          "loader_alone_error"));
  EXPECT_THAT(
      list_keys(json.at("costs").at(0)),
      ElementsAre("name", "group", "wall_ms", "cpu_ms", "cores", "output_bytes", "relative_spread",
                  "p99_ms", "locked_share", "is_memory_bound", "steps_per_second_without"));
  EXPECT_THAT(list_keys(json.at("device").at(0)),
              ElementsAre("name", "seconds", "enqueue_s", "bytes"));
  EXPECT_THAT(
      list_keys(json.at("changes").at(0)),
      ElementsAre("id", "description", "action", "can_apply", "effort", "bottleneck", "predicted",
                  "gain", "is_upper_bound", "measured", "measured_gain", "code"));
  EXPECT_THAT(list_keys(json.at("outcome")),
              ElementsAre("changes", "before", "predicted", "measured", "plan", "note"));
  EXPECT_THAT(list_keys(json.at("utilization")),
              ElementsAre("sm_activity", "dram_use", "gpu_utilization", "note", "cpu_share",
                          "cores", "read_bytes_per_second"));
}

TEST(DoctorJson, ValuesMatchReport) {
  const Json json = parsed(starved_report());
  EXPECT_EQ(json.at("verdict"), "transforms");
  EXPECT_EQ(json.at("bottlenecks"), Json({"transforms", "read"}));
  EXPECT_EQ(json.at("ceiling").at("value"), 3.45);
  EXPECT_EQ(json.at("rate").at("unit"), "steps/s");
  EXPECT_EQ(json.at("rate").at("n"), 12);
  EXPECT_EQ(json.at("share").at("high"), 0.265);
  EXPECT_EQ(json.at("budget").at("limit_s"), 60);
  const Json& levels = json.at("levels");
  ASSERT_EQ(levels.size(), 10u);
  EXPECT_EQ(levels.at(0).at("loader_alone"), nullptr);
  EXPECT_EQ(levels.at(7).at("loader_alone").at("value"), 1.74);
  EXPECT_EQ(levels.at(9).at("after"), nullptr);
  const Json& read = json.at("costs").at(0);
  EXPECT_EQ(read.at("group"), "read");
  EXPECT_NEAR(read.at("cores"), 1.2e-3 * 0.89 * 256, 1e-12);
  EXPECT_TRUE(json.at("changes").at(0).at("can_apply"));
  EXPECT_EQ(json.at("changes").at(0).at("action"), nullptr);
  EXPECT_FALSE(json.at("changes").at(1).at("can_apply"));
  EXPECT_EQ(json.at("outcome").at("measured").at("value"), 1.58);
  EXPECT_EQ(json.at("plan").at("schedule").at("loader").at("num_workers"), 4);
  EXPECT_EQ(json.at("utilization").at("sm_activity").at("value"), 0.22);
}

TEST(DoctorJson, TimesOfSingleSamplesAreOmitted) {
  DoctorReport report = starved_report();
  report.observed.host.resize(1);
  report.observed.host[0].wall_s.assign(1000, 0.125F);
  EXPECT_EQ(doctor_report_json(report), doctor_report_json(starved_report()));
}

TEST(DoctorJson, NonFiniteAndMissingValuesAreNull) {
  for (const double value : {double{NAN}, double{INFINITY}}) {
    const Json json = parsed(report_with_numbers(value));
    EXPECT_EQ(json.at("rate").at("value"), nullptr);
    EXPECT_EQ(json.at("levels").at(3).at("with_training").at("low"), nullptr);
    EXPECT_EQ(json.at("costs").at(0).at("p99_ms"), nullptr);
    EXPECT_EQ(json.at("cores_needed"), nullptr);
    EXPECT_EQ(json.at("utilization").at("gpu_utilization").at("value"), nullptr);
  }
  const Json nothing = parsed(empty_report());
  EXPECT_EQ(nothing.at("verdict"), "not_enough_evidence");
  EXPECT_EQ(nothing.at("ceiling").at("value"), nullptr);
  EXPECT_EQ(nothing.at("outcome"), nullptr);
  EXPECT_EQ(nothing.at("utilization").at("sm_activity"), nullptr);
  EXPECT_TRUE(nothing.at("levels").empty());
}

TEST(DoctorJson, NamesAreKeptAndInvalidUtf8IsReplaced) {
  const Json json = parsed(report_with_text("a\"b<\x01\n"));
  EXPECT_EQ(json.at("levels").at(0).at("name"), "a\"b<\x01\n");
  EXPECT_EQ(parsed(report_with_text("\xff")).at("reason"), "\xef\xbf\xbd");
}

TEST(DoctorText, ShowsResultsAndOmitsMissingSections) {
  DoctorReport on_cpu = full_speed_report(), no_limit = full_speed_report();
  on_cpu.observed.situation.on_gpu = false;
  no_limit.diagnosis.verdict = Bottleneck::none;
  const struct {
    DoctorReport report;
    std::vector<std::string> says, says_not;
  } cases[] = {
      {starved_report(),
       {"NVIDIA H200, 4 cores; batch 256, 4 workers; 58 s of 60 s allowed",
        "Verdict: transforms. The device waits for the transforms.\n",
        "Most gain first: transforms, reading\n",
        "delivers 26 % [25 %, 26 %] of the ceiling; the device waits for input 74 %",
        "needs 16 cores; this process may use 4.",
        "  1. Move the transforms from random_crop on to the device\n"
        "     1.63 [1.55, 1.71] steps/s, 1.83 [1.72, 1.94] times as fast\n"
        "     --apply makes this change\n",
        "at most 1.71", "\n     build/slipstream train starved --data SHARDS\n",
        "agrees with the prediction within the intervals", "  - the machine was busy\n"},
       {}},
      {failed_level_report(),
       {"interrupted",
        "Not measured: after random_mask: transform 'random_mask', sample 17: the image is empty",
        "Loader alone not measured: after random_crop: no time was left"},
       {"SM activity", "Outcome"}},
      {full_speed_report(),
       {"Verdict: the device is the limit. The device is busy, and its input keeps"},
       {"What to change", "Warnings"}},
      {on_cpu, {"the device (here: the CPU) is the limit"}, {}},
      {no_limit, {"Verdict: the input does not limit training. "}, {}},
      {empty_report(), {"Verdict: not enough evidence.\n"}, {"There is not enough evidence"}}};
  for (const auto& [report, says, says_not] : cases) {
    const std::string text = doctor_text(report);
    for (const std::string& words : says) EXPECT_THAT(text, HasSubstr(words));
    for (const std::string& words : says_not) EXPECT_THAT(text, Not(HasSubstr(words)));
  }
}

std::vector<std::string> first_lines(const DoctorReport& report) {
  std::vector<std::string> lines = split(doctor_summary(report), '\n');
  EXPECT_EQ(lines.back(), "");
  lines.pop_back();
  EXPECT_THAT(doctor_text(report), testing::StartsWith(doctor_summary(report)));
  const Json page = page_data(doctor_html(report));
  EXPECT_EQ(page.at("note"), "");
  EXPECT_EQ(page.at("sections").at(0).at("title"), lines.front());
  EXPECT_EQ(page.at("sections").at(0).at("lines").size(), lines.size() - 1);
  return lines;
}

TEST(DoctorSummary, ContainsVerdictFirstChangeAndDistanceFromLimit) {
  EXPECT_THAT(first_lines(starved_report()),
              ElementsAre("Verdict: transforms. The device waits for the transforms.",
                          "Do this first: Move the transforms from random_crop on to the device: "
                          "1.63 [1.55, 1.71] steps/s, 1.83 [1.72, 1.94] times as fast (--apply)",
                          "Training runs at 0.890 [0.872, 0.908] steps/s, 26 % of the limit of "
                          "3.45 [3.42, 3.48] steps/s with all input cached on the device."));
}

TEST(DoctorSummary, ReportWithoutChangeNamesWhatHelps) {
  DoctorReport report = full_speed_report();
  EXPECT_THAT(first_lines(report).at(1),
              "No change of the input gains 5 %: only a faster training step helps.");
  report.diagnosis.verdict = Bottleneck::none;
  EXPECT_THAT(first_lines(report).at(1), HasSubstr("more work in each step"));
  report.diagnosis.verdict = Bottleneck::launch_overhead;
  EXPECT_THAT(first_lines(report).at(1), HasSubstr("fewer kernels"));
  report.diagnosis.verdict = Bottleneck::read;
  EXPECT_EQ(first_lines(report).at(1), "No change that the doctor can predict gains 5 %.");
}

TEST(DoctorSummary, HardwareAndAssumedCostsAreNoFirstAdvice) {
  DoctorReport report = starved_report();
  report.diagnosis.changes = {report.diagnosis.changes.front()};
  Change& change = report.diagnosis.changes.front();
  change.effort = Effort::hardware;
  EXPECT_THAT(first_lines(report).at(1), testing::StartsWith("Only other hardware gains 5 %: "));
  change.id = "what_if";
  EXPECT_EQ(first_lines(report).at(1), "No change that the doctor can predict gains 5 %.");
}

TEST(DoctorSummary, UndecidedReportBeginsWithItsReason) {
  DoctorReport report = failed_level_report();
  report.diagnosis.changes.clear();
  EXPECT_THAT(first_lines(report),
              ElementsAre("Verdict: not enough evidence. Reason: " + report.diagnosis.reason,
                          "Repeat this with a larger budget while no other program runs.",
                          testing::StartsWith("Training runs at ")));
  EXPECT_THAT(first_lines(empty_report()), ElementsAre("Verdict: not enough evidence."));
}

TEST(DoctorSummary, EveryReportHasAtMostThreeLines) {
  for (const auto& [name, report] : all_doctor_reports())
    EXPECT_LE(first_lines(report).size(), 3U) << name;
}

TEST(DoctorText, LevelsWithIntervalsWiderThanTheirValuesAreNotShown) {
  DoctorReport report = starved_report();
  Level& level = report.observed.levels[5];
  level.with_training = Measured{27.9, 0, 55.8, "steps/s", 2};
  level.loader_alone = Measured{2.6, 0, 5.3, "steps/s", 2};
  const std::string text = doctor_text(report);
  EXPECT_EQ(find_line(text, "after random_mask "), "");
  EXPECT_THAT(text, Not(HasSubstr("27.9")));
  EXPECT_THAT(text, HasSubstr("Not shown, because the intervals are wider than the values: "
                              "after random_mask: raise the budget"));
  level.loader_alone = Measured{2.6, 2.5, 2.7, "steps/s", 2};
  EXPECT_THAT(find_line(doctor_text(report), "after random_mask "),
              testing::EndsWith("-     2.60 [2.50, 2.70]"));
}

TEST(DoctorText, TablesHaveExpectedLines) {
  const std::string text = doctor_text(starved_report());
  EXPECT_EQ(find_line(text, "device batch"),
            "  device batch (the ceiling)  3.45 [3.38, 3.52]     ##############################"
            "             100 %                     -");
  EXPECT_EQ(find_line(text, "decoded sample"),
            "  decoded sample              1.72 [1.69, 1.75]     ###############..............."
            "              50 %     1.74 [1.67, 1.81]");
  EXPECT_LT(text.find("processed sample"), text.find("\n  nothing cached"));
  EXPECT_THAT(find_line(text, "0.890 ["), HasSubstr("1.63 [1.55, 1.71]  1.58 [1.55, 1.61]"));
  EXPECT_THAT(find_line(text, "read "), HasSubstr("8.50 [8.24, 8.76]     1.20 [1.16, 1.24]"));
  EXPECT_THAT(find_line(text, "random_mask "),
              HasSubstr("12 % of it with only one worker at a time"));
  EXPECT_THAT(find_line(text, "GPU utilization"), HasSubstr("any kernel at all counts"));
  EXPECT_THAT(find_line(doctor_text(failed_level_report()), "after random_mask "),
              testing::EndsWith("      -                     -"));
}

TEST(DoctorText, ControlCharactersInNamesAreEscaped) {
  const std::string text = doctor_text(report_with_text(kHostile));
  EXPECT_TRUE(std::all_of(text.begin(), text.end(),
                          [](char c) { return c == '\n' || (c >= ' ' && c != 0x7f); }));
  EXPECT_THAT(text, HasSubstr("\\x1b[31m\\x01 \\xff"));
  const std::string broken = doctor_text(report_with_text("a\nb"));
  EXPECT_THAT(find_line(broken, "a b "), HasSubstr("3.45"));
}

TEST(DoctorText, EveryReportIsShortAndWithoutNanOrInf) {
  for (const auto& [name, report] : all_doctor_reports()) {
    const std::string text = doctor_text(report);
    EXPECT_THAT(text, Not(HasSubstr("nan"))) << name;
    EXPECT_THAT(text, Not(HasSubstr("inf"))) << name;
    EXPECT_LT(text.size(), 20000u) << name;
  }
}

TEST(DoctorHtml, ContainsReportJsonAndConsoleText) {
  for (const auto& [name, report] : all_doctor_reports()) {
    const Json page = page_data(doctor_html(report));
    EXPECT_EQ(page.at("report"), parsed(report)) << name;
    std::string shown = page.at("title").get<std::string>() + page.at("note").get<std::string>();
    for (const Json& section : page.at("sections")) {
      shown += section.at("title").get<std::string>();
      for (const char* list : {"lines", "items", "rows"})
        for (const Json& each : section.at(list)) shown += each.dump(-1, ' ', false);
    }
    // Compares words of the console, except bars of # and numbers of a list.
    std::string text = doctor_text(report);
    std::ranges::replace(text, '\n', ' ');
    for (const std::string& word : split(text, ' ')) {
      if (word.find_first_not_of("#.") != std::string::npos && !word.ends_with('.') &&
          word.find_first_of("\"\\") == std::string::npos) {
        EXPECT_THAT(shown, HasSubstr(word)) << name;
      }
    }
  }
}

TEST(DoctorWords, OutcomeIsComparedWithPrediction) {
  Outcome outcome;
  outcome.predicted = {2, 1.9, 2.1, "steps/s", 8};
  outcome.measured = {1.8, 1.7, 1.85, "steps/s", 8};
  EXPECT_EQ(outcome_sentence(outcome), "The outcome is 10 % below the prediction.");
  outcome.measured = {3, 2.9, 3.1, "steps/s", 8};
  EXPECT_EQ(outcome_sentence(outcome), "The outcome is 50 % above the prediction.");
  outcome.measured = {1.8, 1.7, 1.9, "steps/s", 8};
  EXPECT_EQ(outcome_sentence(outcome),
            "The outcome agrees with the prediction within the intervals.");
  outcome.measured.n = 0;
  EXPECT_EQ(outcome_sentence(outcome), "");
}

TEST(DoctorWords, NumbersAreShownWithFewDigits) {
  EXPECT_EQ(figure(Measured{1234.5, 1200, 1300, "ms", 2}), "1234 [1200, 1300]");
  EXPECT_EQ(figure(1e300), "1.00e+300");
  EXPECT_EQ(figure(Measured{2, 1, INFINITY, "1", 2}), "2.00");
  EXPECT_EQ(percent(0.0712), "7.1 %");
  EXPECT_EQ(percent(Measured{0.9, NAN, NAN, "1", 1}), "90 %");
  Diagnosis diagnosis;
  diagnosis.share = {0.7, 0.6, 1.1, "1", 5};
  EXPECT_EQ(percent(waiting_share(diagnosis)), "30 % [0 %, 40 %]");
}

}  // namespace
}  // namespace slipstream
