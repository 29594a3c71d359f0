#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace slipstream {

/// A measured value and its 95 % confidence interval.
struct Measured {
  double value = 0;
  double low = 0;
  double high = 0;
  std::string unit;
  std::size_t n = 0;  ///< independent observations behind the interval
};

/// The mean of `values` with Student's t interval. For a single value, whose spread is unknown, the
/// interval is as wide to each side as the value. REQUIRES: at least one value
Measured mean_interval(std::span<const double> values, std::string unit);

/// The median of `values` with the distribution-free interval from order statistics (binomial,
/// 95 %). With fewer than six values the interval is their range. REQUIRES: at least one value
Measured median_interval(std::span<const double> values, std::string unit);

/// Events per second, from the seconds between consecutive events: 1 / their mean. Neighboring
/// steps are not independent, so the interval comes from the means of `batches` consecutive blocks
/// (the method of batch means). It is as wide relative to the rate as that of the mean duration is
/// relative to the mean duration. REQUIRES: at least one duration, not all 0
Measured rate_from_durations(std::span<const double> durations_s, std::string unit,
                             std::size_t batches = 16);

/// The ratio a / b of two rates, with the unit "1". Its interval holds the ratios of all values in
/// the intervals of a and b: its `high` is infinite where b's interval reaches 0. Where b is not
/// above 0 the result has n = 0.
Measured ratio(const Measured& a, const Measured& b);

/// The two-sided 95 % quantile of Student's t with `degrees` degrees of freedom.
/// REQUIRES: degrees >= 1
double student_t_95(std::size_t degrees);

}  // namespace slipstream
