#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/doctor_report.h"

namespace slipstream {

/// Bars that are as wide as the page gives them: places are percentages, so that they fit a phone.
class RateBars {
 public:
  /// The scale holds all levels with training, the ceiling and the changes; a level that drains
  /// much faster goes off it.
  explicit RateBars(const DoctorReport& report);

  /// One bar with training, and a thin one of the loader alone. `label` is for screen readers.
  std::string level(const Level& level, const std::string& label) const;
  /// A rate, in the look of `css_class`; of one that replaces `before`, what it adds.
  std::string rate(const Measured& rate, const std::string& css_class, const std::string& label,
                   const std::optional<Measured>& before = {}) const;
  bool is_starved(
      const Level& level) const;  ///< less than 95 % of the ceiling, beyond its interval

 private:
  std::string opened(double height, const std::string& label) const;
  std::string box(double value, double y, double height, const std::string& css_class) const;
  std::string whisker(const Measured& rate, double y) const;

  std::optional<double> ceiling_;
  double top_ = 1;
};

/// The lanes in a few of their last steps, one below the other, with an axis in ms; "" where there
/// is nothing to draw.
std::string lanes_timeline(const std::vector<LaneResult>& lanes);

}  // namespace slipstream
