#include <algorithm>
#include <functional>
#include <set>

#include "core/figures.h"
#include "report/chart.h"
#include "report/doctor_words.h"
#include "report/json.h"
#include "report/report.h"

namespace slipstream {
namespace {

/// Returns true if the device ran some transforms, so that rows must say where theirs ran.
bool shows_transforms_device(const std::vector<BenchRow>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const BenchRow& row) { return row.transforms_device == "cuda"; });
}

Json to_json(const BenchRow& row) {
  return {{"batch_size", row.batch_size},
          {"plan", row.plan},
          {"transforms_device", row.transforms_device},
          {"input", row.input},
          {"steps_per_second", to_json(row.steps_per_second)},
          {"gain", to_json(row.gain)},
          {"offloading_gain", to_json(row.offloading_gain)},
          {"share_of_slowest_lane", to_json(row.share_of_slowest_lane)},
          {"overlap_efficiency", to_json(row.overlap_efficiency)},
          {"error", row.error.empty() ? Json(nullptr) : Json(row.error)}};
}

Json to_json(const BenchSettings& settings) {
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

/// Returns the table without columns that have only a header.
std::vector<std::vector<std::string>> filled_columns(std::vector<std::vector<std::string>> cells) {
  for (std::size_t column = cells.front().size(); column-- > 0;) {
    if (std::any_of(cells.begin() + 1, cells.end(),
                    [&](const auto& row) { return !row[column].empty(); }))
      continue;
    for (auto& row : cells) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
  }
  return cells;
}

constexpr double kGroupShare = 0.84;  ///< share of a group's width that its bars fill

using Value = std::function<std::optional<Measured>(const BenchRow&)>;

bool is_alone(const BenchRow& row) { return row.plan.starts_with("alone:"); }

/// Returns the rows to draw. Of the measurements of single lanes only the slowest at each batch
/// size is drawn (a lane that only copies would make all other bars flat), and only for the last
/// transforms device, which has the most lanes.
std::vector<BenchRow> drawn_rows(const std::vector<BenchRow>& rows) {
  std::vector<BenchRow> drawn;
  const auto last = std::find_if(rows.rbegin(), rows.rend(), is_alone);
  for (const BenchRow& row : rows) {
    if (is_alone(row) && row.transforms_device != last->transforms_device) continue;
    const auto slower = [&row](const BenchRow& other) {
      return is_alone(other) && other.batch_size == row.batch_size &&
             other.transforms_device == row.transforms_device && is_there(other.steps_per_second) &&
             is_there(row.steps_per_second) &&
             other.steps_per_second->value < row.steps_per_second->value;
    };
    if (!is_alone(row) || std::none_of(rows.begin(), rows.end(), slower)) drawn.push_back(row);
  }
  return drawn;
}

/// A chart of bars and lines of the same rows: a series for each plan, a group for each batch size.
class BenchChart {
 public:
  explicit BenchChart(const BenchReport& report) : rows_(drawn_rows(report.rows)) {
    std::set<std::string> inputs;
    std::set<std::size_t> sizes;
    for (const BenchRow& row : rows_) {
      if (!is_alone(row)) inputs.insert(row.input);
      sizes.insert(row.batch_size);
    }
    one_input_ = inputs.size() <= 1;
    shows_transforms_device_ = shows_transforms_device(rows_);
    sizes_.assign(sizes.begin(), sizes.end());
    for (const BenchRow& row : rows_)
      if (const std::string name = series_name(row);
          std::find(series_.begin(), series_.end(), name) == series_.end())
        series_.push_back(name);
    chart_.title = "Slipstream: " + report.workload.name;
    chart_.note = machine(report.environment);
    for (std::size_t i = 0; i < series_.size(); ++i) chart_.legend.emplace_back(series_[i], i);
    for (const std::string& warning : report.environment.warnings)
      chart_.footnotes.push_back("warning: " + warning);
    add_panels();
  }

  const Chart& chart() const { return chart_; }

 private:
  std::string series_name(const BenchRow& row) const {
    return row.plan +
           (shows_transforms_device_ && !row.transforms_device.empty()
                ? ", transforms " + row.transforms_device
                : "") +
           (one_input_ ? "" : ", " + row.input);
  }

  std::string machine(const Environment& environment) const {
    std::string words = environment.gpu ? environment.gpu->name : environment.cpu;
    if (one_input_ && !rows_.empty()) words += ", input: " + rows_.front().input;
    const std::string& revision = environment.revision;
    words +=
        ", revision " + revision.substr(0, 12) + (revision.ends_with("-dirty") ? "-dirty" : "");
    return words + ". Whiskers: 95 % intervals.";
  }

  void add_panels() {
    add_panel("steps/s", 0, [](const BenchRow& row) { return row.steps_per_second; });
    chart_.panels[0].bar_width = series_width();
    add_panel("gain over serial", 1, [](const BenchRow& row) { return row.gain; });
    add_panel("offloading gain (transforms on the GPU over the CPU)", 1,
              [](const BenchRow& row) { return row.offloading_gain; });
  }

  double series_width() const { return kGroupShare / static_cast<double>(series_.size()); }

  ChartPoint point(const BenchRow& row, std::size_t series, const Measured& measured,
                   bool is_rate) const {
    const auto size = std::find(sizes_.begin(), sizes_.end(), row.batch_size);
    const double group = static_cast<double>(size - sizes_.begin()) + (1 - kGroupShare) / 2;
    return {.x = group + (static_cast<double>(series) + 0.5) * series_width(),
            .value = measured.value,
            .low = std::max(measured.low, 0.0),  // NaN is kept
            .high = measured.high,
            .tooltip = series_name(row) + ", batch " + std::to_string(row.batch_size) + ": " +
                       with_interval(measured) + " " + measured.unit,
            .label = is_rate ? fixed(measured.value, decimals_for(measured.value, 3))
                             : fixed(measured.value, 2) + "\u00d7"};
  }

  /// Adds a panel of gains only if there are gains.
  void add_panel(const std::string& title, double level, const Value& value) {
    const bool is_rate = chart_.panels.empty();
    bool has_points = is_rate;
    ChartPanel panel{.title = title,
                     .x_title = "batch size",
                     .last_x = std::max<double>(1, static_cast<double>(sizes_.size())),
                     .level = level};
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      panel.x_ticks.emplace_back(static_cast<double>(i) + 0.5, std::to_string(sizes_[i]));
    for (std::size_t i = 0; i < series_.size(); ++i) {
      ChartSeries& series = panel.series.emplace_back(ChartSeries{.color = i});
      for (const BenchRow& row : rows_)
        if (const auto measured = value(row); is_there(measured) && series_name(row) == series_[i])
          series.points.push_back(point(row, i, *measured, is_rate));
      std::sort(series.points.begin(), series.points.end(),
                [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
      has_points |= !series.points.empty();
    }
    if (has_points) chart_.panels.push_back(std::move(panel));
  }

  std::vector<BenchRow> rows_;
  bool one_input_ = true;
  bool shows_transforms_device_ = false;
  std::vector<std::size_t> sizes_;
  std::vector<std::string> series_;
  Chart chart_;
};

}  // namespace

std::string bench_report_json(const BenchReport& report) {
  return printed(
      {{"schema", "slipstream.bench"},
       {"version", 1},
       {"environment", to_json(report.environment)},
       {"workload", to_json(report.workload)},
       {"settings", to_json(report.settings)},
       {"rows", json_list(report.rows, [](const BenchRow& row) { return to_json(row); })}});
}

std::string bench_table(const BenchReport& report) {
  const bool shows_devices = shows_transforms_device(report.rows);
  std::vector<std::vector<std::string>> cells = {{"batch", "plan", "transforms", "input", "steps/s",
                                                  "gain", "offloading", "of slowest lane",
                                                  "overlap"}};
  for (const BenchRow& row : report.rows)
    cells.push_back({std::to_string(row.batch_size), row.plan,
                     shows_devices ? row.transforms_device : "", row.input, rate_cell(row),
                     cell(row.gain), cell(row.offloading_gain), cell(row.share_of_slowest_lane),
                     cell(row.overlap_efficiency)});
  std::string table = aligned_table(filled_columns(std::move(cells)), {0});
  for (const BenchRow& row : report.rows)
    if (has_failed(row))
      table +=
          "failed: " + (row.plan.empty() ? "" : row.plan + ", ") +
          (shows_devices && !row.plan.empty() ? "transforms " + row.transforms_device + ", " : "") +
          "batch " + std::to_string(row.batch_size) + ", input " + row.input + ": " + row.error +
          "\n";
  return table + warning_lines(report.environment);
}

std::string bench_svg(const BenchReport& report) { return chart_svg(BenchChart(report).chart()); }

}  // namespace slipstream
