#include "report/doctor_bars.h"

#include <algorithm>
#include <cmath>

#include "report/doctor_words.h"
#include "report/markup.h"
#include "report/text.h"

namespace slipstream {
namespace {

constexpr double kMostBeyond = 1.5;  ///< of the scale with training, for levels that drain faster
constexpr double kStarved = 0.95;

double upper_end(const Measured& rate) {
  return std::isfinite(rate.high) ? std::clamp(rate.high, rate.value, 1.5 * rate.value)
                                  : rate.value;
}

std::string line(double x1, double x2, double y1, double y2, const char* css_class,
                 const char* unit = "") {
  return std::string("<line class=\"") + css_class + "\" x1=\"" + fixed(x1, 2) + "%\" x2=\"" +
         fixed(x2, 2) + "%\" y1=\"" + fixed(y1, 1) + unit + "\" y2=\"" + fixed(y2, 1) + unit +
         "\"/>";
}

}  // namespace

RateBars::RateBars(const DoctorReport& report) {
  double training = 0;
  double drained = 0;
  const auto hold = [](double& top, const Measured& rate) {
    if (is_there(rate)) top = std::max(top, upper_end(rate));
  };
  if (is_there(report.diagnosis.ceiling)) ceiling_ = report.diagnosis.ceiling.value;
  hold(training, report.diagnosis.ceiling);
  hold(training, report.diagnosis.rate);
  for (const Level& level : report.observed.levels) {
    hold(training, level.with_training.value_or(Measured{}));
    hold(drained, level.loader_alone.value_or(Measured{}));
  }
  for (const Change& change : report.diagnosis.changes) hold(training, change.predicted);
  if (report.outcome) {
    hold(training, report.outcome->predicted);
    hold(training, report.outcome->measured);
  }
  top_ = training > 0 ? std::clamp(drained, training, kMostBeyond * training) : drained;
  if (!(top_ > 0)) top_ = 1;
}

bool RateBars::is_starved(const Level& level) const {
  if (!ceiling_ || !is_there(level.with_training)) return false;
  const Measured& rate = *level.with_training;
  const double high = std::isfinite(rate.high) ? rate.high : rate.value;
  return high < kStarved * *ceiling_;
}

std::string RateBars::opened(double height, const std::string& label) const {
  std::string svg = "<svg role=\"img\" height=\"" + fixed(height, 0) + "\" aria-label=\"" +
                    escaped(label) + "\">";
  return svg + "<rect class=\"track\" width=\"100%\" height=\"100%\"/>";
}

std::string RateBars::box(double value, double y, double height,
                          const std::string& css_class) const {
  const double share = std::clamp(value / top_, 0.0, 1.0);
  std::string svg = "<rect class=\"" + css_class + "\" y=\"" + fixed(y, 1) + "\" height=\"" +
                    fixed(height, 1) + "\" width=\"" + fixed(100 * share, 2) + "%\"/>";
  if (value > top_)
    svg += "<text class=\"beyond\" x=\"100%\" dx=\"-4\" y=\"" + fixed(y + height + 2, 1) +
           "\" text-anchor=\"end\">\u00bb</text>";
  return svg;
}

std::string RateBars::whisker(const Measured& rate, double y) const {
  if (!std::isfinite(rate.low) || !std::isfinite(rate.high) || rate.low > top_) return "";
  const double low = 100 * std::clamp(rate.low / top_, 0.0, 1.0);
  const double high = 100 * std::clamp(rate.high / top_, 0.0, 1.0);
  return line(low, high, y, y, "whisker") + line(low, low, y - 3, y + 3, "whisker") +
         line(high, high, y - 3, y + 3, "whisker");
}

std::string RateBars::level(const Level& level, const std::string& label) const {
  std::string svg = opened(28, label);
  if (is_there(level.with_training))
    svg += box(level.with_training->value, 3, 13, is_starved(level) ? "starved" : "bar") +
           whisker(*level.with_training, 9.5);
  if (is_there(level.loader_alone))
    svg += box(level.loader_alone->value, 19, 5, "drained") + whisker(*level.loader_alone, 21.5);
  if (ceiling_) svg += line(100 * *ceiling_ / top_, 100 * *ceiling_ / top_, 0, 28, "ceiling");
  return svg + "</svg>";
}

std::string RateBars::rate(const Measured& rate, const std::string& css_class,
                           const std::string& label, const std::optional<Measured>& before) const {
  std::string svg = opened(16, label);
  if (is_there(rate)) svg += box(rate.value, 2, 12, css_class);
  if (is_there(before) && before->value < rate.value) svg += box(before->value, 2, 12, "now");
  if (is_there(rate)) svg += whisker(rate, 8);
  if (ceiling_) svg += line(100 * *ceiling_ / top_, 100 * *ceiling_ / top_, 0, 16, "ceiling");
  return svg + "</svg>";
}

}  // namespace slipstream
