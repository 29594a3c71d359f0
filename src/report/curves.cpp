#include "report/curves.h"

#include <algorithm>
#include <cmath>

#include "core/number_text.h"
#include "report/plot.h"
#include "report/svg.h"
#include "report/text.h"

namespace slipstream {
namespace {

constexpr double kMargin = 20;
constexpr double kTop = 96;  ///< of the first row of panels
constexpr double kPanelHeight = 180;
constexpr double kPanelGap = 84;  ///< below each row of panels
constexpr double kTickRoom = 64;  ///< left of each panel
constexpr std::size_t kMostDots = 40;
constexpr double kMostDrawn = 1e100;
constexpr double kLeastDrawn = 1e-100;

using Points = std::vector<std::pair<double, double>>;

struct Series {
  std::string name;
  std::size_t color = 1;
  Points points;  ///< steps and values
};

struct Panel {
  std::string title;
  std::vector<Series> series;
};

struct Range {
  double low = 0;
  double high = 0;

  void include(double value, bool is_first) {
    low = is_first ? value : std::min(low, value);
    high = is_first ? value : std::max(high, value);
  }
  /// Wide enough to be an axis.
  Range widened() const {
    const double largest = std::max(std::abs(low), std::abs(high));
    const double size = largest > kLeastDrawn ? largest : 1;
    if (high - low > 1e-9 * size) return *this;
    return {low - size / 20, high + size / 20};
  }
};

/// The lowest and the highest point of each pixel's column, in the order of their steps.
Points thinned(const Points& points, const Range& steps, double width) {
  if (static_cast<double>(points.size()) <= 2 * width) return points;
  const auto column = [&](const auto& point) {
    return std::floor(width * (point.first - steps.low) / (steps.high - steps.low));
  };
  Points kept;
  for (auto begin = points.begin(); begin != points.end();) {
    const auto end = std::find_if(
        begin, points.end(), [&](const auto& point) { return column(point) != column(*begin); });
    const auto [low, high] = std::minmax_element(
        begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    kept.push_back(*std::min(low, high));
    if (low != high) kept.push_back(*std::max(low, high));
    begin = end;
  }
  return kept;
}

/// Labels of one axis, all alike.
std::string tick_text(double tick, const std::vector<double>& ticks) {
  const double step = ticks[1] - ticks[0];
  const double largest = std::max(std::abs(ticks.front()), std::abs(ticks.back()));
  if (step < 1e-4 || largest >= 1e7) return rounded_text(tick, 3);
  const int digits = rounded_text(step, 1) == rounded_text(step, 2) ? 1 : 2;
  return fixed(tick, decimals_for(step, digits));
}

class CurvesPlot {
 public:
  CurvesPlot(const MetricsTable& table, const std::string& title) : title_(title) {
    std::vector<Place> places;
    for (const std::string& name : table.names()) places.push_back(new_series(name));
    for (const MetricsRow& row : table.rows()) {
      const auto step = static_cast<double>(row.step);
      steps_.include(step, &row == table.rows().data());
      for (const auto& [index, value] : row.values)
        if (std::abs(value) <= kMostDrawn)
          panels_[places[index].panel].series[places[index].series].points.emplace_back(step,
                                                                                        value);
    }
    if (steps_.low == steps_.high) steps_.high += 1;
    steps_ = steps_.widened();
    columns_ = panels_.size() > 1 ? 2 : 1;
  }

  std::string drawn() {
    const std::size_t rows = (panels_.size() + columns_ - 1) / columns_;
    const double height = kTop + static_cast<double>(rows) * (kPanelHeight + kPanelGap);
    svg_ = Svg(kPlotWidth, height, title_, "Values of a training run over its steps", kPlotStyle);
    svg_.rect(0, 0, kPlotWidth, height, "page");
    svg_.text(kMargin, 30, title_, "title");
    draw_legend();
    for (std::size_t i = 0; i < panels_.size(); ++i) draw_panel(i);
    return svg_.finished();
  }

 private:
  struct Place {
    std::size_t panel;
    std::size_t series;
  };

  Place new_series(const std::string& name) {
    const std::size_t slash = std::min(name.find('/'), name.size());
    const std::string source = slash == name.size() ? "" : name.substr(0, slash);
    const std::string title = slash == name.size() ? name : name.substr(slash + 1);
    auto panel = std::find_if(panels_.begin(), panels_.end(),
                              [&](const Panel& known) { return known.title == title; });
    if (panel == panels_.end()) panel = panels_.insert(panel, {title, {}});
    auto known = std::find(sources_.begin(), sources_.end(), source);
    if (known == sources_.end()) known = sources_.insert(known, source);
    const auto number = static_cast<std::size_t>(known - sources_.begin());
    panel->series.push_back({source, color_of(number), {}});
    return {static_cast<std::size_t>(panel - panels_.begin()), panel->series.size() - 1};
  }

  static std::size_t color_of(std::size_t source) { return 1 + source % (kPlotColors - 1); }

  void draw_legend() {
    double x = kMargin;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (sources_[i].empty()) continue;
      svg_.rect(x, 44, 12, 12, "f" + std::to_string(color_of(i)));
      svg_.text(x + 18, 54, sources_[i], "label");
      x += 34 + kLetterWidth * 1.1 * static_cast<double>(sources_[i].size());
    }
    if (panels_.empty()) svg_.text(kMargin, 54, "no values yet", "note");
  }

  /// Ticks that hold all values of a panel.
  static std::vector<double> ticks_for(const Panel& panel) {
    Range values;
    bool is_first = true;
    for (const Series& series : panel.series)
      for (const auto& [step, value] : series.points) {
        values.include(value, is_first);
        is_first = false;
      }
    values = values.widened();
    return nice_ticks(values.low, values.high, 4);
  }

  /// With the last value of each series.
  static std::string panel_title(const Panel& panel) {
    std::string values;
    for (const Series& series : panel.series) {
      if (series.points.empty()) continue;
      values += (values.empty() ? ": " : ", ") + series.name + (series.name.empty() ? "" : " ") +
                rounded_text(series.points.back().second, 4);
    }
    return panel.title + values;
  }

  void draw_panel(std::size_t index) {
    const Panel& panel = panels_[index];
    const double width = (kPlotWidth - 2 * kMargin) / static_cast<double>(columns_);
    const std::size_t row = index / columns_;
    const double left = kMargin + static_cast<double>(index % columns_) * width + kTickRoom;
    const double right = left + width - kTickRoom;
    const double top = kTop + static_cast<double>(row) * (kPanelHeight + kPanelGap);
    const PlotAxis axis{top, top + kPanelHeight, ticks_for(panel)};
    svg_.text(left, top - 12, panel_title(panel), "label");
    for (const double tick : axis.ticks) {
      svg_.line(left, axis.y(tick), right, axis.y(tick), "grid");
      svg_.text(left - 8, axis.y(tick) + 4, tick_text(tick, axis.ticks), "tick", "end");
    }
    draw_step_axis(left, right, axis.bottom);
    for (const Series& series : panel.series) draw_series(panel, series, axis, left, right);
  }

  double x_of(double step, double left, double right) const {
    return left + (step - steps_.low) / (steps_.high - steps_.low) * (right - left);
  }

  void draw_step_axis(double left, double right, double bottom) {
    svg_.line(left, bottom, right, bottom, "axis");
    const std::vector<double> ticks = nice_ticks(steps_.low, steps_.high, columns_ == 1 ? 8 : 4);
    for (const double tick : ticks)
      if (tick >= steps_.low && tick <= steps_.high && tick == std::floor(tick))
        svg_.text(x_of(tick, left, right), bottom + 18, tick_text(tick, ticks), "tick", "middle");
    svg_.text((left + right) / 2, bottom + 36, "step", "note", "middle");
  }

  void draw_series(const Panel& panel, const Series& series, const PlotAxis& axis, double left,
                   double right) {
    const std::string color = std::to_string(series.color);
    Points places;
    for (const auto& [step, value] : thinned(series.points, steps_, right - left))
      places.emplace_back(x_of(step, left, right), axis.y(value));
    if (places.size() > 1) svg_.polyline(places, "l" + color);
    if (series.points.size() > kMostDots) return;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto& [step, value] = series.points[i];
      const std::string name = series.name + (series.name.empty() ? "" : "/") + panel.title;
      svg_.circle(places[i].first, places[i].second, 3, "f" + color,
                  name + " at step " + fixed(step, 0) + ": " + rounded_text(value, 4));
    }
  }

  std::string title_;
  std::vector<Panel> panels_;
  std::vector<std::string> sources_;  ///< what stands before the first "/" of names
  Range steps_;
  std::size_t columns_ = 1;
  Svg svg_{0, 0, "", "", ""};
};

}  // namespace

std::string curves_svg(const MetricsTable& table, const std::string& title) {
  return CurvesPlot(table, title).drawn();
}

}  // namespace slipstream
