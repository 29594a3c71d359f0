#include <algorithm>
#include <cmath>

#include "core/figures.h"
#include "core/json_fields.h"
#include "core/number_text.h"
#include "core/text.h"
#include "doctor/wording.h"
#include "report/doctor_words.h"
#include "report/page.h"
#include "report/sections.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

/// Relative to the scale with training, for levels that drain faster.
constexpr double kMostBeyond = 1.5;

/// Returns the length of the longest bar of rates: all bars with training fit, and levels that
/// drain faster may be longer.
double longest_bar(const DoctorReport& report) {
  double training = 0, drained = 0;
  const auto include = [](double& longest, const std::optional<Measured>& rate) {
    if (!is_there(rate)) return;
    const double high = std::isfinite(rate->high) ? rate->high : rate->value;
    longest = std::max({longest, rate->value, std::min(high, 1.5 * rate->value)});
  };
  include(training, report.diagnosis.ceiling);
  include(training, report.diagnosis.rate);
  for (const Level& level : report.observed.levels) {
    include(training, level.with_training);
    include(drained, level.loader_alone);
  }
  for (const Change& change : report.diagnosis.changes) include(training, change.predicted);
  if (report.outcome) {
    include(training, report.outcome->predicted);
    include(training, report.outcome->measured);
  }
  return training > 0 ? std::clamp(drained, training, kMostBeyond * training) : drained;
}

bool is_starved(const Level& level, const Measured& ceiling) {
  if (!is_there(ceiling) || !is_there(level.with_training)) return false;
  const Measured& rate = *level.with_training;
  return (std::isfinite(rate.high) ? rate.high : rate.value) < kStarved * ceiling.value;
}

/// Returns a section whose bars are rates.
Section rates_section(const DoctorReport& report, const std::string& title) {
  const Measured& ceiling = report.diagnosis.ceiling;
  return {
      .title = title, .top = longest_bar(report), .mark = is_there(ceiling) ? ceiling.value : 0};
}

Section level_rows(const DoctorReport& report) {
  Section section =
      rates_section(report, "Steps/s by cache level, from everything cached to nothing cached");
  section.note =
      "Each level takes everything before it from a cache. The thin bar is the loader alone. The "
      "dashed line is the ceiling; bars are orange if the rate is below 95 % of it and the "
      "interval excludes it.";
  const auto& levels = report.observed.levels;
  if (levels.empty()) return section;
  const Measured& ceiling = report.diagnosis.ceiling;
  section.rows = {{"what is cached", "training", "share of ceiling", "loader alone"}};
  section.right = {2, 3};
  section.text_bars = 2;
  for (const Level& level : levels) {
    if (is_uncertain(level)) continue;
    const bool known = is_there(level.with_training) && is_there(ceiling) && ceiling.value > 0;
    section.rows.push_back({level_label(level), figure(level.with_training),
                            known ? percent(level.with_training->value / ceiling.value) : "-",
                            figure(level.loader_alone)});
    section.bars.push_back({{level.with_training.value_or(Measured{}), "training",
                             is_starved(level, ceiling) ? "starved" : "bar"},
                            {level.loader_alone.value_or(Measured{}), "loader alone", "second"}});
  }
  return section;
}

std::string verdict_tone(Bottleneck verdict) {
  if (verdict == Bottleneck::not_enough_evidence) return "unsure";
  return verdict == Bottleneck::device || verdict == Bottleneck::none ? "good" : "bad";
}

/// The verdict, what to do first and the distance from the limit.
Section summary(const DoctorReport& report) {
  std::vector<std::string> lines = summary_lines(report);
  Section section{.title = lines.front(), .tone = verdict_tone(report.diagnosis.verdict)};
  section.lines.assign(lines.begin() + 1, lines.end());
  return section;
}

Section explanation(const DoctorReport& report) {
  const Diagnosis& diagnosis = report.diagnosis;
  Section section{.title = "Slipstream doctor: " + report.workload.name,
                  .note = "Figures in brackets are 95 % intervals."};
  section.lines = {describe_setting(report), diagnosis.reason, ranks_sentence(report)};
  if (diagnosis.bottlenecks.size() > 1) {
    section.lines.push_back("Most gain first: " + joined(spoken_names(diagnosis)));
  }
  if (is_there(diagnosis.share))
    section.lines.push_back("The input delivers " + percent(diagnosis.share) + " of the ceiling; " +
                            device_waits(percent(waiting_share(diagnosis))) + ".");
  section.lines.push_back(cores_sentence(report));
  return section;
}

Section warnings(const DoctorReport& report) {
  Section section{.title = "Warnings"};
  for (const std::string& warning : list_warnings(report)) section.items.push_back({warning});
  return section;
}

Section changes(const DoctorReport& report) {
  Section section = rates_section(report, "What to change, least effort first");
  section.is_numbered = true;
  bool has_code = false;
  for (const Change& change : report.diagnosis.changes) {
    std::string text = change.description + "\n" + prediction(change);
    if (change.apply) text += "\n--apply makes this change";
    if (!change.action.empty()) text += "\n" + change.action;
    // Code is long, so only that of the best change is printed.
    if (!change.code.empty() && !has_code) {
      has_code = true;
      text += "\nThis code makes the change where the doctor was called:\n" + change.code;
    }
    section.items.push_back({text, {{change.predicted, prediction(change)}}});
    if (is_there(change.measured))
      section.items.back().bars.push_back({change.measured, "measured", "second"});
  }
  return section;
}

Section outcome(const DoctorReport& report) {
  Section section = rates_section(report, "Outcome, steps/s");
  if (!report.outcome) return section;
  const Outcome& outcome = *report.outcome;
  section.rows = {{"before", "predicted", "measured"},
                  {figure(outcome.before), figure(outcome.predicted), figure(outcome.measured)}};
  section.bars = {{{outcome.before, "before", "second"},
                   {outcome.predicted, "predicted", "second"},
                   {outcome.measured, "measured"}}};
  section.lines = {outcome_sentence(outcome)};
  if (!outcome.changes.empty()) section.lines.push_back("applied: " + joined(outcome.changes));
  return section;
}

Section costs(const DoctorReport& report) {
  Section section{.title = "Cost of one sample in one worker, ms",
                  .note = "Measured while nothing else runs. A thin bar shows the CPU time."};
  if (report.diagnosis.costs.empty()) return section;
  section.rows = {{"step", "kind", "wall", "CPU", "cores", "relative spread", "p99", "output size",
                   "steps/s if this cost nothing", ""}};
  section.right = {4, 5, 6, 7};
  for (const CostRow& row : report.diagnosis.costs) {
    section.rows.push_back({row.name, spoken(row.group), figure(row.wall_ms), figure(row.cpu_ms),
                            compact(cores_used(row, report), 1), compact(row.variation, 2),
                            figure(row.p99_ms), size_text(row.bytes), figure(row.without),
                            remarks_on(row)});
    section.bars.push_back({{row.wall_ms, "wall", "second"}, {row.cpu_ms, "CPU"}});
    if (is_there(row.wall_ms)) section.top = std::max(section.top, row.wall_ms.value);
  }
  return section;
}

Section device(const DoctorReport& report) {
  Section section{.title = "Cost of one batch on the device, each step alone, ms"};
  if (report.observed.device.empty()) return section;
  section.rows = {{"what", "ms", "ms to enqueue", "bytes copied or output size"}};
  section.right = {2, 3};
  for (const DeviceCost& cost : report.observed.device)
    section.rows.push_back({cost.name, figure(in_ms(cost.seconds)),
                            compact(1e3 * cost.enqueue_s, 2),
                            cost.bytes == 0 ? "-" : size_text(static_cast<double>(cost.bytes))});
  return section;
}

Section timeline() {
  return {.title = "Timeline of a few steps by lane",
          .note =
              "Measured with nothing cached. A lane is a CUDA stream, or a host thread if there is "
              "no GPU. Boxes are batches; gaps between them are waiting time.",
          .is_timeline = true,
          .is_for_page = true};
}

Section utilization(const DoctorReport& report) {
  Section section{.title = "Utilization with nothing cached",
                  .lines = {report.observed.utilization.note},
                  .top = 1};
  const std::vector<Reading> readings = collect_readings(report);
  if (readings.empty()) return section;
  section.rows = {{"what", "utilization"}};
  section.right = {1};
  for (const Reading& reading : readings) {
    section.rows.push_back({reading.name, reading.text});
    std::vector<Bar>& bars = section.bars.emplace_back();
    if (reading.share)
      bars.push_back({measured_once(*reading.share, "share"), reading.name,
                      reading.is_misleading ? "second" : "bar"});
  }
  return section;
}

Section environment(const DoctorReport& report) {
  const Environment& of = report.environment;
  Section section{.title = "Environment of the measurement", .is_for_page = true};
  section.rows = {{"what", ""},
                  {"time", of.time},
                  {"Slipstream", of.slipstream + ", revision " + of.revision},
                  {"GPU", of.gpu ? of.gpu->name + ", driver " + of.gpu->driver : "none"},
                  {"CPU", of.cpu + ", " + std::to_string(of.logical_cores) + " logical cores"},
                  {"memory", size_text(static_cast<double>(of.memory_bytes))},
                  {"system", of.os},
                  {"built by", of.compiler + ", LibTorch " + of.libtorch}};
  for (const auto& [name, option] : report.workload.options)
    section.rows.push_back({name, option_text(option)});
  return section;
}

/// Returns the sections after the summary.
std::vector<Section> doctor_sections(const DoctorReport& report) {
  return {explanation(report), warnings(report),   changes(report), outcome(report),
          level_rows(report),  costs(report),      device(report),  timeline(),
          utilization(report), environment(report)};
}

}  // namespace

std::string doctor_summary(const DoctorReport& report) {
  std::string text;
  for (const std::string& line : summary_lines(report)) text += printable(line) + "\n";
  return text;
}

std::string doctor_text(const DoctorReport& report) {
  return doctor_summary(report) + to_text(doctor_sections(report));
}

std::string doctor_html(const DoctorReport& report) {
  Json page = {{"title", "Slipstream doctor: " + printable(report.workload.name)},
               {"note", ""},
               {"sections", Json::array({to_json(summary(report))})},
               {"report", json::parsed_or_discarded(doctor_report_json(report))}};
  for (const Section& section : doctor_sections(report))
    page["sections"].push_back(to_json(section));
  return page_html(page);
}

}  // namespace slipstream
