#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace slipstream {

/// A value to draw, with an interval if both bounds are finite.
struct ChartPoint {
  double x = 0;
  double value = 0;
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
  std::string tooltip = {};
  std::string label = {};  ///< next to a dot, or above a bar that is wide enough
};

struct ChartSeries {
  std::size_t color = 0;  ///< any number; taken modulo kChartColors
  std::vector<ChartPoint> points = {};
};

inline constexpr std::size_t kChartColors = 6;

/// A panel with values over one horizontal axis.
struct ChartPanel {
  std::string title = {};
  std::string x_title = {};
  double first_x = 0, last_x = 1;
  std::vector<std::pair<double, std::string>> x_ticks = {};
  std::vector<ChartSeries> series = {};
  /// Width of bars in units of x; 0 for lines, with dots if there are few points.
  double bar_width = 0;
  /// A value that the vertical axis includes. Charts with lines have a dashed line at this value.
  std::optional<double> level = {};
};

struct Chart {
  std::string title;
  std::string note = {};                                         ///< below the title
  std::vector<std::pair<std::string, std::size_t>> legend = {};  ///< names and their colors
  std::vector<ChartPanel> panels = {};
  std::size_t columns = 1;  ///< columns of panels
  std::vector<std::string> footnotes = {};
};

/// Returns a self-contained SVG drawing, with a light and a dark color scheme. If many points of a
/// line are in one pixel column, only the lowest and the highest are drawn.
/// REQUIRES: finite values up to 1e100
std::string chart_svg(const Chart& chart);

/// Returns about `count` round numbers, from at or below `low` to at or above `high`.
/// REQUIRES: low < high, both finite
std::vector<double> nice_ticks(double low, double high, int count);
/// Returns the label of `tick`, which is one of `ticks`. All labels have the same number of
/// decimals.
std::string tick_text(double tick, const std::vector<double>& ticks);

/// Returns `low` and `high`, moved apart if they are too close to be an axis.
std::pair<double, double> widened(double low, double high);

}  // namespace slipstream
