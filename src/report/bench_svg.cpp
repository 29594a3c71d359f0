#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "report/bench_rows.h"
#include "report/doctor_words.h"
#include "report/plot.h"
#include "report/report.h"
#include "report/svg.h"
#include "report/text.h"

namespace slipstream {
namespace {

constexpr double kLeft = 64;
constexpr double kRight = kPlotWidth - 20;
constexpr double kLegendTop = 74;
constexpr double kLegendRow = 20;
constexpr double kBarsHeight = 280;
constexpr double kGainHeight = 180;
constexpr double kGainGap = 84;       ///< above each plot of gains
constexpr double kGroupShare = 0.84;  ///< of a group's width that its bars fill

constexpr const char* kStyle = R"(
.value { font-size: 11px; }
.one { stroke: #57606a; stroke-dasharray: 5 4; }
.whisker { stroke: #24292f; stroke-width: 1.4; }
@media (prefers-color-scheme: dark) {
  .one { stroke: #7d8590; }
  .whisker { stroke: #e6edf3; }
}
)";

using Value = std::function<std::optional<Measured>(const BenchRow&)>;

struct GainPlot {
  std::string title;
  Value gain;
};

std::optional<Measured> finite(const std::optional<Measured>& measured) {
  return is_there(measured) ? measured : std::nullopt;
}

bool is_alone(const BenchRow& row) { return row.plan.starts_with("alone:"); }

/// Rows to draw: of the lanes alone, only the slowest at each batch size (a lane that merely copies
/// would flatten all other bars), and only of the last placement, which has the most lanes.
std::vector<BenchRow> drawn_rows(const std::vector<BenchRow>& rows) {
  std::vector<BenchRow> drawn;
  const auto last = std::find_if(rows.rbegin(), rows.rend(), is_alone);
  for (const BenchRow& row : rows) {
    if (is_alone(row) && row.transforms_device != last->transforms_device) continue;
    const auto slower = [&row](const BenchRow& other) {
      return is_alone(other) && other.batch_size == row.batch_size &&
             other.transforms_device == row.transforms_device && finite(other.steps_per_second) &&
             finite(row.steps_per_second) &&
             other.steps_per_second->value < row.steps_per_second->value;
    };
    if (!is_alone(row) || std::none_of(rows.begin(), rows.end(), slower)) drawn.push_back(row);
  }
  return drawn;
}

class BenchPlot {
 public:
  explicit BenchPlot(const BenchReport& report) : report_(report), rows_(drawn_rows(report.rows)) {
    std::set<std::string> inputs;
    std::set<std::size_t> sizes;
    for (const BenchRow& row : rows_) {
      if (!is_alone(row)) inputs.insert(row.input);
      sizes.insert(row.batch_size);
    }
    one_input_ = inputs.size() <= 1;
    tells_placement_ = tells_placement(rows_);
    sizes_.assign(sizes.begin(), sizes.end());
    for (const BenchRow& row : rows_) {
      const std::string name = series_of(row);
      if (std::find(series_.begin(), series_.end(), name) == series_.end()) series_.push_back(name);
    }
  }

  std::string drawn() {
    const double legend_bottom = kLegendTop + kLegendRow * legend_rows();
    const double bars_bottom = legend_bottom + 34 + kBarsHeight;
    const std::vector<GainPlot> gains = gain_plots();
    const std::vector<std::string>& warnings = report_.environment.warnings;
    const double height = bars_bottom +
                          static_cast<double>(gains.size()) * (kGainGap + kGainHeight) + 48 +
                          kLegendRow * static_cast<double>(warnings.size());
    const std::string title = "Slipstream: " + report_.workload.name;
    svg_ = Svg(kPlotWidth, height, title,
               "Steps per second and gains by batch size, with 95 % intervals",
               std::string(kPlotStyle).append(kStyle));
    svg_.rect(0, 0, kPlotWidth, height, "page");
    svg_.text(kLeft, 30, title, "title");
    svg_.text(kLeft, 52, subtitle(), "note");
    draw_legend();
    draw_bars({bars_bottom - kBarsHeight, bars_bottom, {}});
    double top = bars_bottom;
    for (const GainPlot& plot : gains) {
      top += kGainGap;
      draw_gains({top, top + kGainHeight, {}}, plot);
      top += kGainHeight;
    }
    top += 60;
    for (const std::string& warning : warnings) {
      svg_.text(kLeft, top, "warning: " + warning, "note");
      top += kLegendRow;
    }
    return svg_.finished();
  }

 private:
  std::string series_of(const BenchRow& row) const {
    return row.plan +
           (tells_placement_ && !row.transforms_device.empty()
                ? ", transforms " + row.transforms_device
                : "") +
           (one_input_ ? "" : ", " + row.input);
  }

  std::string subtitle() const {
    const Environment& environment = report_.environment;
    std::string text = environment.gpu ? environment.gpu->name : environment.cpu;
    if (one_input_ && !rows_.empty()) text += ", input: " + rows_.front().input;
    const std::string& revision = environment.revision;
    text += ", revision " + revision.substr(0, 12) + (revision.ends_with("-dirty") ? "-dirty" : "");
    return text + ". Whiskers: 95 % intervals.";
  }

  static std::string color(char kind, std::size_t series) {
    return kind + std::to_string(series % kPlotColors);
  }

  double group_width() const { return (kRight - kLeft) / static_cast<double>(sizes_.size()); }
  double group_center(std::size_t group) const {
    return kLeft + (static_cast<double>(group) + 0.5) * group_width();
  }

  double slot_width() const {
    return group_width() * kGroupShare / static_cast<double>(series_.size());
  }
  /// Where a series is within a group, in every plot.
  double slot_center(std::size_t group, std::size_t series) const {
    return group_center(group) - group_width() * kGroupShare / 2 +
           (static_cast<double>(series) + 0.5) * slot_width();
  }

  const BenchRow* row_of(std::size_t group, std::size_t series) const {
    for (const BenchRow& row : rows_)
      if (row.batch_size == sizes_[group] && series_of(row) == series_[series]) return &row;
    return nullptr;
  }

  /// Calls place(series, x, y) for each entry of the legend; returns its number of rows.
  template <typename Place>
  double lay_out_legend(Place place) const {
    double x = kLeft;
    double row = 0;
    for (std::size_t i = 0; i < series_.size(); ++i) {
      const double width = 34 + kLetterWidth * 1.1 * static_cast<double>(series_[i].size());
      if (x > kLeft && x + width > kRight) {
        x = kLeft;
        ++row;
      }
      place(i, x, kLegendTop + kLegendRow * row);
      x += width;
    }
    return row + 1;
  }

  double legend_rows() const {
    return lay_out_legend([](std::size_t, double, double) {});
  }

  void draw_legend() {
    lay_out_legend([this](std::size_t series, double x, double y) {
      svg_.rect(x, y - 10, 12, 12, color('f', series));
      svg_.text(x + 18, y, series_[series], "label");
    });
  }

  /// Ticks that hold all values with their intervals, and `base`.
  std::vector<double> ticks_for(const Value& value, double base, int count) const {
    double low = base;
    double high = base;
    for (const BenchRow& row : rows_) {
      const std::optional<Measured> measured = finite(value(row));
      if (!measured) continue;
      low = std::min(low, std::isfinite(measured->low) ? measured->low : measured->value);
      high = std::max({high, measured->value, std::isfinite(measured->high) ? measured->high : 0});
    }
    if (high - low < 1e-9) high = low + 1;
    return nice_ticks(std::max(low, 0.0), high, count);
  }

  void draw_frame(const PlotAxis& axis, const std::string& title) {
    const int decimals = decimals_for(axis.ticks[1] - axis.ticks[0], 2);
    svg_.text(kLeft, axis.top - 16, title, "label");
    for (const double tick : axis.ticks) {
      svg_.line(kLeft, axis.y(tick), kRight, axis.y(tick), "grid");
      svg_.text(kLeft - 8, axis.y(tick) + 4, fixed(tick, decimals), "tick", "end");
    }
    svg_.line(kLeft, axis.bottom, kRight, axis.bottom, "axis");
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      svg_.text(group_center(i), axis.bottom + 18, std::to_string(sizes_[i]), "tick", "middle");
    svg_.text((kLeft + kRight) / 2, axis.bottom + 36, "batch size", "note", "middle");
  }

  void draw_whisker(const PlotAxis& axis, double x, const Measured& measured) {
    if (!std::isfinite(measured.low) || !std::isfinite(measured.high)) return;
    const double top = axis.y(measured.high);
    const double bottom = axis.y(measured.low);
    svg_.line(x, top, x, bottom, "whisker");
    for (const double y : {top, bottom}) svg_.line(x - 3, y, x + 3, y, "whisker");
  }

  std::string tooltip(const BenchRow& row, const Measured& measured) const {
    return series_of(row) + ", batch " + std::to_string(row.batch_size) + ": " +
           with_interval(measured) + " " + measured.unit;
  }

  void draw_bars(PlotAxis axis) {
    axis.ticks = ticks_for([](const BenchRow& row) { return row.steps_per_second; }, 0, 6);
    draw_frame(axis, "steps/s");
    for (std::size_t group = 0; group < sizes_.size(); ++group)
      for (std::size_t series = 0; series < series_.size(); ++series) draw_bar(axis, group, series);
  }

  void draw_bar(const PlotAxis& axis, std::size_t group, std::size_t series) {
    const BenchRow* row = row_of(group, series);
    const std::optional<Measured> rate = row ? finite(row->steps_per_second) : std::nullopt;
    if (!rate) return;
    const double y = axis.y(rate->value);
    const double x = slot_center(group, series);
    const double slot = slot_width();
    const double gap = std::min(4.0, slot * 0.1);
    svg_.rect(x - (slot - gap) / 2, y, slot - gap, axis.bottom - y, color('f', series),
              tooltip(*row, *rate));
    draw_whisker(axis, x, *rate);
    const std::string label = fixed(rate->value, decimals_for(rate->value, 3));
    const double label_y = std::min(y, std::isfinite(rate->high) ? axis.y(rate->high) : y) - 5;
    if (kLetterWidth * static_cast<double>(label.size()) <= slot)
      svg_.text(x, label_y, label, "value", "middle");
  }

  /// Those that have something to show.
  std::vector<GainPlot> gain_plots() const {
    std::vector<GainPlot> plots = {
        {"gain over serial", [](const BenchRow& row) { return row.gain; }},
        {"offloading gain (transforms gpu over cpu) and pipelining gain (pipelined over gpu)",
         [](const BenchRow& row) {
           return row.offloading_gain ? row.offloading_gain : row.pipelining_gain;
         }}};
    std::erase_if(plots, [this](const GainPlot& plot) {
      return std::none_of(rows_.begin(), rows_.end(),
                          [&](const BenchRow& row) { return finite(plot.gain(row)).has_value(); });
    });
    return plots;
  }

  void draw_gains(PlotAxis axis, const GainPlot& plot) {
    axis.ticks = ticks_for(plot.gain, 1, 4);
    draw_frame(axis, plot.title);
    svg_.line(kLeft, axis.y(1), kRight, axis.y(1), "one");
    for (std::size_t series = 0; series < series_.size(); ++series) {
      std::vector<std::pair<double, double>> points;
      for (std::size_t group = 0; group < sizes_.size(); ++group) {
        const BenchRow* row = row_of(group, series);
        if (const auto gain = row ? finite(plot.gain(*row)) : std::nullopt)
          points.emplace_back(slot_center(group, series), axis.y(gain->value));
      }
      if (points.size() > 1) svg_.polyline(points, color('l', series));
    }
    for (std::size_t group = 0; group < sizes_.size(); ++group)
      for (std::size_t series = 0; series < series_.size(); ++series)
        draw_gain(axis, plot.gain, group, series);
  }

  void draw_gain(const PlotAxis& axis, const Value& value, std::size_t group, std::size_t series) {
    const BenchRow* row = row_of(group, series);
    const std::optional<Measured> gain = row ? finite(value(*row)) : std::nullopt;
    if (!gain) return;
    const double x = slot_center(group, series);
    draw_whisker(axis, x, *gain);
    svg_.circle(x, axis.y(gain->value), 4, color('f', series), tooltip(*row, *gain));
    svg_.text(x + 10, axis.y(gain->value) - 6, fixed(gain->value, 2) + "\u00d7", "value");
  }

  const BenchReport& report_;
  std::vector<BenchRow> rows_;
  bool one_input_ = true;
  bool tells_placement_ = false;
  std::vector<std::size_t> sizes_;
  std::vector<std::string> series_;
  Svg svg_{0, 0, "", "", ""};
};

}  // namespace

std::string bench_svg(const BenchReport& report) { return BenchPlot(report).drawn(); }

}  // namespace slipstream
