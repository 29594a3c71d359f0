#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace slipstream {

/// A value that is drawn, with an interval where both bounds are finite.
struct ChartPoint {
  double x = 0;
  double value = 0;
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
  std::string tooltip = {};
  std::string label = {};  ///< next to a dot, or above a bar that is wide enough
};

struct ChartSeries {
  std::size_t color = 0;  ///< any number; there are kChartColors
  std::vector<ChartPoint> points = {};
};

inline constexpr std::size_t kChartColors = 6;

/// Values over one axis.
struct ChartPanel {
  std::string title = {};
  std::string x_title = {};
  double first_x = 0, last_x = 1;
  std::vector<std::pair<double, std::string>> x_ticks = {};
  std::vector<ChartSeries> series = {};
  double bar_width = 0;  ///< of bars, in units of x; 0: lines, with dots where points are few
  std::optional<double> level =
      {};  ///< the vertical axis includes it; lines have a dashed one there
};

struct Chart {
  std::string title;
  std::string note = {};                                         ///< below the title
  std::vector<std::pair<std::string, std::size_t>> legend = {};  ///< names and their colors
  std::vector<ChartPanel> panels = {};
  std::size_t columns = 1;  ///< of panels
  std::vector<std::string> footnotes = {};
};

/// An SVG drawing that loads nothing and is light or dark as its reader likes it. Where many points
/// of a line are in one pixel column, the lowest and the highest of them are drawn. REQUIRES:
/// finite values up to 1e100
std::string chart_svg(const Chart& chart);

/// Round numbers, about `count` of them, from at or below `low` to at or above `high`.
/// REQUIRES: low < high, both finite
std::vector<double> nice_ticks(double low, double high, int count);
/// The label of `tick`, one of `ticks`, all with the same number of decimals.
std::string tick_text(double tick, const std::vector<double>& ticks);

/// `low` and `high`, moved apart where they are too close to be an axis.
std::pair<double, double> widened(double low, double high);

}  // namespace slipstream
