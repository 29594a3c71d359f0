#include "report/curves.h"

#include <algorithm>
#include <cmath>

#include "core/figures.h"
#include "core/number_text.h"
#include "report/chart.h"

namespace slipstream {
namespace {

constexpr double kMostDrawn = 1e100;

/// Splits a value's name at its first "/": "train" and "loss" for "train/loss".
std::pair<std::string, std::string> source_and_title(const std::string& name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) return {"", name};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

/// A panel for each title, with a series for each of its sources.
class CurvePanels {
 public:
  explicit CurvePanels(const MetricsTable& table) : table_(table) {
    for (const std::string& name : table.names()) add(name);
    for (const MetricsRow& row : table.rows())
      for (const auto& [name, value] : row.values)
        if (std::abs(value) <= kMostDrawn) add_point(name, static_cast<double>(row.step), value);
  }

  /// Returns the panels, with the last value of each series appended to their titles.
  std::vector<ChartPanel> titled() && {
    std::vector<std::string> values(panels_.size());
    for (std::size_t name = 0; name < series_.size(); ++name) {
      const auto [panel, index] = series_[name];
      const std::vector<ChartPoint>& points = panels_[panel].series[index].points;
      if (points.empty()) continue;
      const std::string source = source_and_title(table_.names()[name]).first;
      values[panel] += (values[panel].empty() ? ": " : ", ") + source +
                       (source.empty() ? "" : " ") + rounded_text(points.back().value, 4);
    }
    for (std::size_t i = 0; i < panels_.size(); ++i) panels_[i].title += values[i];
    return std::move(panels_);
  }

  std::vector<std::pair<std::string, std::size_t>> legend() const {
    std::vector<std::pair<std::string, std::size_t>> entries;
    for (std::size_t i = 0; i < sources_.size(); ++i)
      if (!sources_[i].empty()) entries.emplace_back(sources_[i], color_of_source(i));
    return entries;
  }

 private:
  static std::size_t color_of_source(std::size_t source) { return 1 + source % (kChartColors - 1); }

  static std::size_t index_in(std::vector<std::string>& names, const std::string& name) {
    const auto index =
        static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (index == names.size()) names.push_back(name);
    return index;
  }

  void add(const std::string& name) {
    const auto [source, title] = source_and_title(name);
    const std::size_t panel = index_in(titles_, title);
    if (panel == panels_.size()) panels_.push_back({.title = title, .x_title = "step"});
    panels_[panel].series.push_back({.color = color_of_source(index_in(sources_, source))});
    series_.emplace_back(panel, panels_[panel].series.size() - 1);
  }

  void add_point(std::size_t name, double step, double value) {
    const auto [panel, index] = series_[name];
    panels_[panel].series[index].points.push_back(
        {.x = step,
         .value = value,
         .tooltip =
             table_.names()[name] + " at step " + fixed(step, 0) + ": " + rounded_text(value, 4)});
  }

  const MetricsTable& table_;
  std::vector<ChartPanel> panels_;
  std::vector<std::string> titles_;   ///< titles of the panels
  std::vector<std::string> sources_;  ///< parts of names before "/"
  /// For each name, the index of its panel, and its index in the panel.
  std::vector<std::pair<std::size_t, std::size_t>> series_;
};

void set_steps(const MetricsTable& table, Chart& chart) {
  if (table.rows().empty()) return;
  const auto first = static_cast<double>(table.rows().front().step);
  const auto last = static_cast<double>(table.rows().back().step);
  const auto [low, high] = widened(first, std::max(last, first + 1));
  const std::vector<double> ticks = nice_ticks(low, high, chart.columns == 1 ? 8 : 4);
  for (ChartPanel& panel : chart.panels) {
    panel.first_x = low;
    panel.last_x = high;
    for (const double tick : ticks)
      if (tick >= low && tick <= high && tick == std::floor(tick))
        panel.x_ticks.emplace_back(tick, tick < 1e7 ? fixed(tick, 0) : rounded_text(tick, 3));
  }
}

}  // namespace

std::string curves_svg(const MetricsTable& table, const std::string& title) {
  CurvePanels panels(table);
  Chart chart{.title = title, .legend = panels.legend()};
  chart.panels = std::move(panels).titled();
  if (chart.panels.empty()) chart.note = "no values yet";
  chart.columns = chart.panels.size() > 1 ? 2 : 1;
  set_steps(table, chart);
  return chart_svg(chart);
}

}  // namespace slipstream
