#include "report/evaluation_report.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/figures.h"
#include "core/json_fields.h"
#include "core/number_text.h"
#include "report/json.h"

namespace slipstream {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostRows = 40;
constexpr int kScoreDigits = 4;
constexpr int kDecimals = 4;

double share(double part, double whole) { return whole > 0 ? part / whole : kUnknown; }

void add_rows(std::vector<ClassRow>::const_iterator first,
              std::vector<ClassRow>::const_iterator last,
              std::vector<std::vector<std::string>>& table) {
  for (; first != last; ++first)
    table.push_back({first->name, std::to_string(first->labels), fixed(first->accuracy, kDecimals),
                     fixed(first->iou, kDecimals)});
}

}  // namespace

std::vector<ClassRow> class_rows(const std::vector<double>& counts,
                                 const std::vector<std::string>& names) {
  std::size_t classes = 0;
  while (classes * classes < counts.size()) ++classes;
  std::vector<double> labels(classes), predictions(classes);
  for (std::size_t i = 0; i < classes; ++i)
    for (std::size_t j = 0; j < classes; ++j) {
      labels[i] += counts[i * classes + j];
      predictions[j] += counts[i * classes + j];
    }
  std::vector<ClassRow> rows;
  for (std::size_t i = 0; i < classes; ++i) {
    const double both = counts[i * classes + i];
    rows.push_back({i < names.size() ? names[i] : std::to_string(i),
                    static_cast<std::uint64_t>(labels[i]), share(both, labels[i]),
                    share(both, labels[i] + predictions[i] - both)});
  }
  return rows;
}

bool is_better_score(const std::string& name, double value, double than) {
  return name == "loss" ? value < than : value > than;
}

std::string score_table(const std::vector<ScoreRow>& rows, const std::vector<ScoreRow>& earlier) {
  std::vector<std::vector<std::string>> table = {{"score", "last", "best", "in epoch"}};
  for (const auto& [name, last] : rows.back().scores) {
    double best = kUnknown, epoch = kUnknown;
    const auto look_at = [&, &score = name](const ScoreRow& row) {
      for (const auto& [other, value] : row.scores) {
        if (other != score || !std::isfinite(value)) continue;
        if (std::isfinite(best) && !is_better_score(score, value, best)) continue;
        best = value;
        epoch = row.epoch;
      }
    };
    for (const ScoreRow& row : earlier) look_at(row);
    for (const ScoreRow& row : rows) look_at(row);
    table.push_back({name, rounded_text(last, kScoreDigits), rounded_text(best, kScoreDigits),
                     rounded_text(epoch, kScoreDigits)});
  }
  return aligned_table(table, {1, 2, 3});
}

std::string evaluation_report_json(const EvaluationReport& report) {
  Json scores = Json::object();
  for (const auto& [name, value] : report.scores) scores[name] = number(value);
  const auto convert = [](const ClassRow& row) -> Json {
    return {{"name", row.name},
            {"labels", row.labels},
            {"accuracy", number(row.accuracy)},
            {"iou", number(row.iou)}};
  };
  Json json = {{"schema", "slipstream.evaluation"},
               {"version", 1},
               {"environment", to_json(report.environment)},
               {"workload", to_json(report.workload)},
               {"weights", report.weights},
               {"samples", report.samples},
               {"scores", scores},
               {"classes", json_list(report.classes, convert)},
               {"steps_per_second", to_json(report.run.steps_per_second)},
               {"input_wait_share", report.run.input_wait_share},
               {"plan", json::parsed(to_json_text(report.run.plan), "the plan")}};
  return printed(json);
}

std::string evaluation_text(const EvaluationReport& report) {
  std::string text = format_count(report.samples, "sample") + "\n";
  for (const auto& [name, value] : report.scores)
    text += name + " " + rounded_text(value, kScoreDigits) + "\n";
  if (report.classes.empty()) return text;
  std::vector<std::vector<std::string>> table = {{"class", "labels", "accuracy", "IoU"}};
  std::vector<ClassRow> rows = report.classes;
  if (rows.size() > kMostRows) {
    std::stable_sort(rows.begin(), rows.end(),
                     [](const ClassRow& a, const ClassRow& b) { return a.accuracy < b.accuracy; });
    add_rows(rows.cbegin(), rows.cbegin() + kMostRows / 2, table);
    table.push_back({"...", "", "", ""});
    add_rows(rows.cend() - kMostRows / 2, rows.cend(), table);
  } else {
    add_rows(rows.cbegin(), rows.cend(), table);
  }
  if (!report.counts_pixels)
    for (auto& row : table) row.pop_back();
  return text + aligned_table(table, {1, 2, 3});
}

}  // namespace slipstream
