#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "report/doctor_bars.h"
#include "report/doctor_words.h"
#include "report/markup.h"
#include "report/svg.h"
#include "report/text.h"

namespace slipstream {
namespace {

constexpr std::size_t kSteps = 4;
constexpr double kRowHeight = 26;
constexpr double kDigitWidth = 0.03;  ///< of a lane on a phone

bool is_drawable(const Interval& interval) {
  return std::isfinite(interval.begin_s) && std::isfinite(interval.end_s) &&
         interval.end_s >= interval.begin_s;
}

struct Span {
  double begin_s = 0;
  double end_s = 0;

  double place(double time_s) const {
    return std::clamp((time_s - begin_s) / (end_s - begin_s), 0.0, 1.0);
  }
};

/// From the end of the step before the last few of the last lane: its wait for them is seen too.
Span span_of(const std::vector<LaneResult>& lanes) {
  std::vector<Interval> last;
  if (!lanes.empty())
    std::copy_if(lanes.back().last_intervals.begin(), lanes.back().last_intervals.end(),
                 std::back_inserter(last), is_drawable);
  if (last.empty()) return {};
  if (last.size() <= kSteps) return {last.front().begin_s, last.back().end_s};
  return {last[last.size() - kSteps - 1].end_s, last.back().end_s};
}

std::string box(const Span& span, const Interval& interval) {
  const double begin = span.place(interval.begin_s);
  const double width = span.place(interval.end_s) - begin;
  const std::string step = std::to_string(interval.step);
  const double ms = 1e3 * (interval.end_s - interval.begin_s);
  std::string svg = "<rect class=\"s" + std::to_string(interval.step % 3) + "\" y=\"3\" height=\"" +
                    fixed(kRowHeight - 6, 0) + "\" x=\"" + fixed(100 * begin, 2) + "%\" width=\"" +
                    fixed(100 * width, 2) + "%\"><title>step " + step + ": " + figure(ms) +
                    " ms</title></rect>";
  if (width >= kDigitWidth * static_cast<double>(step.size()))
    svg += "<text class=\"on\" x=\"" + fixed(100 * (begin + width / 2), 2) + "%\" y=\"" +
           fixed(kRowHeight / 2 + 4, 0) + "\" text-anchor=\"middle\">" + step + "</text>";
  return svg;
}

std::string row(const Span& span, const LaneResult& lane) {
  std::string boxes;
  const std::string steps = joined(lane.steps);
  double busy = 0;
  for (const Interval& interval : lane.last_intervals) {
    if (!is_drawable(interval) || interval.end_s <= span.begin_s || interval.begin_s >= span.end_s)
      continue;
    boxes += box(span, interval);
    busy += span.place(interval.end_s) - span.place(interval.begin_s);
  }
  const std::string share = percent(std::min(busy, 1.0));
  std::string name = escaped(lane.name);
  if (steps != lane.name) name += element("small", "", escaped(steps));
  const std::string svg = "<svg role=\"img\" height=\"" + fixed(kRowHeight, 0) +
                          "\" aria-label=\"" + escaped(lane.name) + ": busy " + share +
                          "\"><rect class=\"track\" width=\"100%\" height=\"100%\"/>" + boxes +
                          "</svg>";
  return element("li", "",
                 element("span", "name", name) + element("span", "plot", svg) +
                     element("span", "num", "<b>" + share + "</b> busy"));
}

std::string axis(const Span& span) {
  const double length_ms = 1e3 * (span.end_s - span.begin_s);
  const std::vector<double> ticks = nice_ticks(0, length_ms, 4);
  const int decimals = decimals_for(ticks[1], 1);
  std::string svg = "<svg role=\"presentation\" height=\"20\">";
  for (const double tick : ticks) {
    const double share = tick / length_ms;
    if (share > 1) continue;
    const std::string x = fixed(100 * share, 2) + "%";
    const char* anchor = share < 0.05 ? "start" : share > 0.9 ? "end" : "middle";
    const std::string label = compact(tick, decimals) + " ms";
    svg.append("<line class=\"grid\" x1=\"").append(x).append("\" x2=\"").append(x);
    svg.append("\" y1=\"0\" y2=\"5\"/><text x=\"").append(x);
    svg.append("\" y=\"17\" text-anchor=\"").append(anchor).append("\">");
    svg.append(label).append("</text>");
  }
  return element("li", "axis",
                 "<span class=\"name\"></span>" + element("span", "plot", svg + "</svg>") +
                     "<span class=\"num\"></span>");
}

}  // namespace

std::string lanes_timeline(const std::vector<LaneResult>& lanes) {
  const Span span = span_of(lanes);
  if (!(span.end_s > span.begin_s)) return "";
  std::string rows;
  for (const LaneResult& lane : lanes) rows += row(span, lane);
  return element("ul", "rows lanes", rows + axis(span));
}

}  // namespace slipstream
