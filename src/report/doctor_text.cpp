#include <algorithm>
#include <cmath>

#include "core/number_text.h"
#include "diagnosis/wording.h"
#include "report/doctor_words.h"
#include "report/text.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr double kBarWidth = 30;

/// Each line two blanks in; what a cell holds stays on its line.
std::string table(Rows rows, const std::vector<std::size_t>& right) {
  for (auto& row : rows) {
    for (std::string& cell : row) {
      cell = printable(cell);
      std::replace_if(
          cell.begin(), cell.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
    }
    row.insert(row.begin(), "");
  }
  std::vector<std::size_t> columns;
  columns.reserve(right.size());
  for (const std::size_t column : right) columns.push_back(column + 1);
  return aligned_table(rows, columns);
}

std::string section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : "\n" + title + "\n" + body;
}

/// "####......": the rate, and what the fastest level has beyond it.
std::string bar(const std::optional<Measured>& rate, double fastest) {
  if (!is_there(rate) || !(fastest > 0)) return "";
  const double share = std::clamp(rate->value / fastest, 0.0, 1.0);
  const auto full = static_cast<std::size_t>(std::lround(kBarWidth * share));
  return std::string(full, '#') + std::string(static_cast<std::size_t>(kBarWidth) - full, '.');
}

std::string verdict(const DoctorReport& report) {
  const Diagnosis& diagnosis = report.diagnosis;
  const Culprit verdict = diagnosis.verdict;
  std::string text = "\nVerdict: " + spoken_verdict(report) + ".";
  if (!headline_of(verdict).empty()) text += " " + std::string(headline_of(verdict));
  if (!diagnosis.reason.empty()) text += "\n  " + printable(diagnosis.reason);
  if (diagnosis.culprits.size() > 1) {
    text += "\n  Most gain first: ";
    for (const Culprit culprit : diagnosis.culprits)
      text += (culprit == diagnosis.culprits.front() ? "" : ", ") + spoken(culprit);
  }
  if (is_there(diagnosis.share))
    text += "\n  The input delivers " + percent(diagnosis.share) + " of the ceiling; " +
            device_waits(percent(waiting_share(diagnosis))) + ".";
  const std::string cores = cores_sentence(report);
  return text + (cores.empty() ? "" : "\n  " + cores) + "\n";
}

std::string ladder(const DoctorReport& report) {
  const auto& levels = report.observed.levels;
  if (levels.empty()) return "";
  double fastest = 0;
  for (const Level& level : levels)
    if (is_there(level.with_training)) fastest = std::max(fastest, level.with_training->value);
  const Measured& ceiling = report.diagnosis.ceiling;
  Rows rows = {{"what is cached", "training", "", "of ceiling", "loader alone"}};
  for (const Level& level : levels) {
    const bool known = is_there(level.with_training) && is_there(ceiling) && ceiling.value > 0;
    rows.push_back({label_of(level), figure(level.with_training), bar(level.with_training, fastest),
                    known ? percent(level.with_training->value / ceiling.value) : "-",
                    figure(level.loader_alone)});
  }
  return table(rows, {3, 4});
}

std::string costs(const DoctorReport& report) {
  if (report.diagnosis.costs.empty()) return "";
  Rows rows = {
      {"step", "kind", "wall", "CPU", "cores", "variation", "p99", "makes", "steps/s if free", ""}};
  for (const CostRow& row : report.diagnosis.costs)
    rows.push_back({row.name, spoken(row.group), figure(row.wall_ms), figure(row.cpu_ms),
                    compact(cores_used(row, report), 1), compact(row.variation, 2),
                    figure(row.p99_ms), size_text(row.bytes), figure(row.without),
                    remarks_on(row)});
  return table(rows, {4, 5, 6, 7});
}

std::string device(const DoctorReport& report) {
  if (report.observed.device.empty()) return "";
  Rows rows = {{"what", "ms", "to enqueue", "moves or makes"}};
  for (const DeviceCost& cost : report.observed.device)
    rows.push_back({cost.name, figure(in_ms(cost.seconds)), compact(1e3 * cost.enqueue_s, 2),
                    cost.bytes == 0 ? "-" : size_text(static_cast<double>(cost.bytes))});
  return table(rows, {2, 3});
}

std::string changes(const DoctorReport& report) {
  std::string text;
  std::size_t rank = 0;
  for (const Change& change : report.diagnosis.changes) {
    text += "  " + std::to_string(++rank) + ". " + printable(change.what) + "\n     " +
            prediction(change) + "\n";
    if (change.apply) text += "     --apply does it\n";
    std::string how = printable(change.how);
    for (std::size_t end = how.find('\n'); end != std::string::npos; end = how.find('\n', end + 1))
      how.insert(end + 1, "     ");
    if (!how.empty()) text += "     " + how + "\n";
  }
  return text;
}

std::string outcome(const DoctorReport& report) {
  if (!report.outcome) return "";
  const Outcome& outcome = *report.outcome;
  std::string applied;
  for (const std::string& change : outcome.changes)
    applied += (applied.empty() ? "" : "; ") + change;
  return table({{"before", "predicted", "measured"},
                {figure(outcome.before), figure(outcome.predicted), figure(outcome.measured)}},
               {}) +
         "  " + outcome_sentence(outcome) + "\n" +
         (applied.empty() ? "" : "  applied: " + printable(applied) + "\n");
}

std::string utilization(const DoctorReport& report) {
  Rows rows;
  for (const Reading& reading : readings_of(report)) rows.push_back({reading.name, reading.text});
  const std::string& note = report.observed.utilization.note;
  return table(rows, {1}) + (note.empty() ? "" : "  " + printable(note) + "\n");
}

std::string warnings(const DoctorReport& report) {
  std::string text;
  for (const std::string& warning : warnings_of(report)) text += "  - " + printable(warning) + "\n";
  return text;
}

}  // namespace

std::string doctor_text(const DoctorReport& report) {
  return "Slipstream doctor: " + printable(report.workload.name) + "\n" +
         printable(setting_of(report)) + "\n" +
         section("Steps/s, from all cached to nothing", ladder(report)) + verdict(report) +
         section("Warnings", warnings(report)) +
         section("What to change, most gain first", changes(report)) +
         section("Outcome, steps/s", outcome(report)) +
         section("What a sample costs in one worker, ms", costs(report)) +
         section("What a batch costs on the device, alone, ms", device(report)) +
         section("How busy, with nothing cached", utilization(report));
}

}  // namespace slipstream
