#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "core/figures.h"
#include "core/number_text.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr double kChartWidth = 880, kMargin = 20;
constexpr double kPanelHeight = 190, kPanelGap = 84;  ///< the gap is above each row of panels
constexpr double kTickRoom = 64;                      ///< left of each panel
constexpr double kLetterWidth = 7.2, kLineHeight = 20;
constexpr std::size_t kMostDots = 40;

using Numbers = std::initializer_list<std::pair<std::string_view, double>>;
using ChartPoints = std::vector<ChartPoint>;

std::string escaped(std::string_view words) {
  std::string result;
  for (const char c : printable(words))
    result += c == '&'   ? std::string("&amp;")
              : c == '<' ? "&lt;"
              : c == '>' ? "&gt;"
              : c == '"' ? "&quot;"
                         : std::string(1, c);
  return result;
}

/// Returns an SVG element. `inside` is already markup.
std::string shape(std::string_view name, const std::string& css_class, Numbers numbers,
                  const std::string& inside = "", const std::string& attributes = "") {
  std::string markup = "<" + std::string(name) + " class=\"" + css_class + "\"";
  for (const auto& [key, value] : numbers)
    markup.append(" ").append(key).append("=\"").append(fixed(value, 1)).append("\"");
  return markup + attributes + ">" + inside + "</" + std::string(name) + ">\n";
}

std::string line(double x1, double y1, double x2, double y2, const std::string& css_class) {
  return shape("line", css_class, {{"x1", x1}, {"y1", y1}, {"x2", x2}, {"y2", y2}});
}

std::string text(double x, double y, const std::string& words, const std::string& css_class,
                 const std::string& anchor = "start") {
  return shape("text", css_class, {{"x", x}, {"y", y}}, escaped(words),
               " text-anchor=\"" + anchor + "\"");
}

std::string tooltip(const std::string& words) {
  return words.empty() ? "" : "<title>" + escaped(words) + "</title>";
}

std::string color(char kind, std::size_t number) {
  return kind + std::to_string(number % kChartColors);
}

/// Returns CSS for the colors of the page, the text, notes, the grid, axes, and series: class fN
/// fills, class lN draws lines.
std::string colors(const std::vector<std::string>& of) {
  std::string css = ".page { fill: " + of[0] + "; } text { fill: " + of[1] +
                    "; } .whisker { stroke: " + of[1] + "; } .note { fill: " + of[2] +
                    "; } .level { stroke: " + of[2] + "; } .grid { stroke: " + of[3] +
                    "; } .axis { stroke: " + of[4] + "; }\n";
  for (std::size_t i = 0; i < kChartColors; ++i)
    css += "." + color('f', i) + " { fill: " + of[5 + i] + "; } ." + color('l', i) +
           " { fill: none; stroke-width: 2; stroke: " + of[5 + i] + "; }\n";
  return css;
}

std::string style() {
  return "<style>\ntext { font: 13px system-ui, sans-serif; }\n"
         ".title { font-size: 17px; font-weight: 600; }\n.value { font-size: 11px; }\n"
         ".level { stroke-dasharray: 5 4; }\n" +
         colors({"#ffffff", "#24292f", "#57606a", "#e1e4e8", "#8c959f", "#8c959f", "#0072b2",
                 "#d98200", "#009e73", "#c05c96", "#7a5cc0"}) +
         "@media (prefers-color-scheme: dark) {\n" +
         colors({"#0d1117", "#e6edf3", "#9aa4ae", "#262c34", "#7d8590", "#7d8590", "#4aa8e0",
                 "#f0a840", "#35c495", "#e08cc0", "#a48ae8"}) +
         "}\n</style>\n";
}

bool has_interval(const ChartPoint& point) {
  return std::isfinite(point.low) && std::isfinite(point.high);
}

std::vector<double> value_ticks(const ChartPanel& panel) {
  double low = panel.level.value_or(HUGE_VAL), high = panel.level.value_or(-HUGE_VAL);
  for (const ChartSeries& series : panel.series)
    for (const ChartPoint& point : series.points) {
      low = std::min({low, point.value, has_interval(point) ? point.low : point.value});
      high = std::max({high, point.value, has_interval(point) ? point.high : point.value});
    }
  if (low > high) low = high = 0;
  const auto [from, to] = widened(low, high);
  return nice_ticks(from, to, 5);
}

/// A panel and its position in pixels.
struct DrawnPanel {
  const ChartPanel& panel;
  double left, right, top, bottom;
  std::vector<double> ticks = value_ticks(panel);

  double x(double value) const {
    return left + (value - panel.first_x) / (panel.last_x - panel.first_x) * (right - left);
  }
  double y(double value) const {
    const double share = (value - ticks.front()) / (ticks.back() - ticks.front());
    return bottom - std::clamp(share, 0.0, 1.0) * (bottom - top);
  }
};

std::string frame(const DrawnPanel& to) {
  std::string svg = text(to.left, to.top - 12, to.panel.title, "label");
  for (const double tick : to.ticks)
    svg += line(to.left, to.y(tick), to.right, to.y(tick), "grid") +
           text(to.left - 8, to.y(tick) + 4, tick_text(tick, to.ticks), "note", "end");
  svg += line(to.left, to.bottom, to.right, to.bottom, "axis");
  for (const auto& [at, label] : to.panel.x_ticks)
    svg += text(to.x(at), to.bottom + 18, label, "note", "middle");
  if (to.panel.level && to.panel.bar_width == 0)
    svg += line(to.left, to.y(*to.panel.level), to.right, to.y(*to.panel.level), "level");
  return svg + text((to.left + to.right) / 2, to.bottom + 36, to.panel.x_title, "note", "middle");
}

std::string whisker(const DrawnPanel& to, const ChartPoint& point) {
  if (!has_interval(point)) return "";
  const double x = to.x(point.x), low = to.y(point.low), high = to.y(point.high);
  return line(x, high, x, low, "whisker") + line(x - 3, high, x + 3, high, "whisker") +
         line(x - 3, low, x + 3, low, "whisker");
}

std::string bars(const DrawnPanel& to, const ChartSeries& series) {
  std::string svg;
  const double width = to.x(to.panel.bar_width) - to.x(0), gap = std::min(4.0, width * 0.1);
  for (const ChartPoint& point : series.points) {
    const double x = to.x(point.x), y = to.y(point.value);
    svg += shape("rect", color('f', series.color),
                 {{"x", x - (width - gap) / 2},
                  {"y", y},
                  {"width", width - gap},
                  {"height", to.bottom - y}},
                 tooltip(point.tooltip)) +
           whisker(to, point);
    const double above = has_interval(point) ? std::min(y, to.y(point.high)) : y;
    if (kLetterWidth * static_cast<double>(point.label.size()) <= width)
      svg += text(x, above - 5, point.label, "value", "middle");
  }
  return svg;
}

/// Keeps the lowest and the highest point of each pixel column, in their order. More points would
/// not be visible.
ChartPoints thinned(const DrawnPanel& to, const ChartPoints& points) {
  if (static_cast<double>(points.size()) <= 2 * (to.right - to.left)) return points;
  ChartPoints kept;
  for (auto begin = points.begin(); begin != points.end();) {
    const auto end = std::find_if(begin, points.end(), [&](const ChartPoint& point) {
      return std::floor(to.x(point.x)) != std::floor(to.x(begin->x));
    });
    const auto [low, high] = std::minmax_element(
        begin, end, [](const auto& a, const auto& b) { return a.value < b.value; });
    kept.push_back(*std::min(low, high));
    if (low != high) kept.push_back(*std::max(low, high));
    begin = end;
  }
  return kept;
}

std::string curve(const DrawnPanel& to, const ChartSeries& series) {
  std::string list, dots;
  for (const ChartPoint& point : thinned(to, series.points))
    list += fixed(to.x(point.x), 1) + "," + fixed(to.y(point.value), 1) + " ";
  if (series.points.size() <= kMostDots)
    for (const ChartPoint& point : series.points) {
      const double x = to.x(point.x), y = to.y(point.value);
      dots +=
          whisker(to, point) + shape("circle", color('f', series.color),
                                     {{"cx", x}, {"cy", y}, {"r", 3.5}}, tooltip(point.tooltip));
      if (!point.label.empty()) dots += text(x + 10, y - 6, point.label, "value");
    }
  if (series.points.size() < 2) return dots;
  return shape("polyline", color('l', series.color), {}, "", " points=\"" + list + "\"") + dots;
}

/// Draws the legend and moves `y` down to its last row.
std::string legend(const Chart& chart, double& y) {
  std::string svg;
  double x = kMargin;
  y += chart.legend.empty() ? 0 : kLineHeight;
  for (const auto& [name, number] : chart.legend) {
    const double width = 34 + kLetterWidth * static_cast<double>(name.size());
    if (x > kMargin && x + width > kChartWidth - kMargin) {
      x = kMargin;
      y += kLineHeight;
    }
    svg += shape("rect", color('f', number),
                 {{"x", x}, {"y", y - 10}, {"width", 12}, {"height", 12}}) +
           text(x + 18, y, name, "label");
    x += width;
  }
  return svg;
}

std::string panels(const Chart& chart, double& y) {
  std::string svg;
  const double width = (kChartWidth - 2 * kMargin) / static_cast<double>(chart.columns);
  for (std::size_t i = 0; i < chart.panels.size(); ++i) {
    if (i % chart.columns == 0) y += (i == 0 ? 36 : kPanelGap) + kPanelHeight;
    const double left = kMargin + static_cast<double>(i % chart.columns) * width + kTickRoom;
    const DrawnPanel to{chart.panels[i], left, left + width - kTickRoom, y - kPanelHeight, y};
    svg += frame(to);
    for (const ChartSeries& series : to.panel.series)
      svg += to.panel.bar_width > 0 ? bars(to, series) : curve(to, series);
  }
  return svg;
}

}  // namespace

std::string chart_svg(const Chart& chart) {
  double y = 30;
  std::string body = text(kMargin, y, chart.title, "title");
  if (!chart.note.empty()) body += text(kMargin, y += kLineHeight, chart.note, "note");
  body += legend(chart, y);
  body += panels(chart, y);
  y += chart.panels.empty() ? 0 : 40;
  for (const std::string& note : chart.footnotes)
    body += text(kMargin, y += kLineHeight, note, "note");
  const std::string width = fixed(kChartWidth, 0), height = fixed(y + kMargin, 0);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"" + width +
         "\" height=\"" + height + "\" viewBox=\"0 0 " + width + " " + height + "\">\n" +
         tooltip(chart.title) + "\n" + style() +
         shape("rect", "page", {{"width", kChartWidth}, {"height", y + kMargin}}) + body +
         "</svg>\n";
}

std::vector<double> nice_ticks(double low, double high, int count) {
  ensure(low < high && std::isfinite(high - low) && count > 0, "an axis has a length");
  const double rough = (high - low) / count;
  const double magnitude = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * magnitude;
  for (const double factor : {5.0, 2.5, 2.0, 1.0})
    if (factor * magnitude >= rough) step = factor * magnitude;
  // The small offset keeps a bound that is a tick except for rounding errors from adding another
  // tick.
  const auto first = std::llround(std::floor(low / step + 1e-9));
  const auto last = std::llround(std::ceil(high / step - 1e-9));
  std::vector<double> ticks;
  for (auto i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

std::string tick_text(double tick, const std::vector<double>& ticks) {
  const double step = ticks[1] - ticks[0];
  const double largest = std::max(std::abs(ticks.front()), std::abs(ticks.back()));
  if (step < 1e-4 || largest >= 1e7) return rounded_text(tick, 3);
  const int digits = rounded_text(step, 1) == rounded_text(step, 2) ? 1 : 2;
  return fixed(tick, decimals_for(step, digits));
}

std::pair<double, double> widened(double low, double high) {
  const double largest = std::max(std::abs(low), std::abs(high));
  const double size = largest > 1e-100 ? largest : 1;
  if (high - low > 1e-9 * size) return {low, high};
  return {low - size / 20, high + size / 20};
}

}  // namespace slipstream
