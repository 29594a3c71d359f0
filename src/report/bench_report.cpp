#include "report/bench_rows.h"
#include "report/json.h"
#include "report/report.h"
#include "report/text.h"

namespace slipstream {
namespace {

Json json_of(const BenchRow& row) {
  return {{"batch_size", row.batch_size},
          {"plan", row.plan},
          {"transforms_device", row.transforms_device},
          {"input", row.input},
          {"steps_per_second", json_of(row.steps_per_second)},
          {"gain", json_of(row.gain)},
          {"offloading_gain", json_of(row.offloading_gain)},
          {"pipelining_gain", json_of(row.pipelining_gain)},
          {"share_of_slowest_lane", json_of(row.share_of_slowest_lane)},
          {"overlap_efficiency", json_of(row.overlap_efficiency)},
          {"error", row.error.empty() ? Json(nullptr) : Json(row.error)}};
}

Json json_of(const BenchSettings& settings) {
  return {{"precision", settings.precision},     {"deterministic", settings.deterministic},
          {"num_workers", settings.num_workers}, {"steps", settings.steps},
          {"seconds", settings.seconds},         {"repeats", settings.repeats}};
}

std::string cell(const std::optional<Measured>& measured) {
  return measured ? with_interval(*measured) : "";
}

bool has_failed(const BenchRow& row) { return !row.error.empty() && row.error != kInterruptedRow; }

std::string rate_cell(const BenchRow& row) {
  if (has_failed(row)) return "failed";
  return row.error.empty() ? cell(row.steps_per_second) : row.error;
}

/// Without the columns that have nothing but a head.
std::vector<std::vector<std::string>> filled_columns(std::vector<std::vector<std::string>> cells) {
  for (std::size_t column = cells.front().size(); column-- > 0;) {
    if (std::any_of(cells.begin() + 1, cells.end(),
                    [&](const auto& row) { return !row[column].empty(); }))
      continue;
    for (auto& row : cells) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
  }
  return cells;
}

}  // namespace

std::string bench_report_json(const BenchReport& report) {
  Json rows = Json::array();
  for (const BenchRow& row : report.rows) rows.push_back(json_of(row));
  return printed({{"schema", "slipstream.bench"},
                  {"version", 1},
                  {"environment", json_of(report.environment)},
                  {"workload", json_of(report.workload)},
                  {"settings", json_of(report.settings)},
                  {"rows", std::move(rows)}});
}

std::string bench_table(const BenchReport& report) {
  const bool tells = tells_placement(report.rows);
  std::vector<std::vector<std::string>> cells = {{"batch", "plan", "transforms", "input", "steps/s",
                                                  "gain", "offloading", "pipelining",
                                                  "of slowest lane", "overlap"}};
  for (const BenchRow& row : report.rows)
    cells.push_back({std::to_string(row.batch_size), row.plan, tells ? row.transforms_device : "",
                     row.input, rate_cell(row), cell(row.gain), cell(row.offloading_gain),
                     cell(row.pipelining_gain), cell(row.share_of_slowest_lane),
                     cell(row.overlap_efficiency)});
  std::string table = aligned_table(filled_columns(std::move(cells)), {0});
  for (const BenchRow& row : report.rows)
    if (has_failed(row))
      table += "failed: " + (row.plan.empty() ? "" : row.plan + ", ") +
               (tells && !row.plan.empty() ? "transforms " + row.transforms_device + ", " : "") +
               "batch " + std::to_string(row.batch_size) + ", input " + row.input + ": " +
               row.error + "\n";
  return table + warning_lines(report.environment);
}

}  // namespace slipstream
