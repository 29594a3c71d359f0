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
  std::size_t n = 0;  ///< number of independent observations that the interval is based on
};

/// Returns the mean of `values` with its Student's t interval. For a single value, whose spread is
/// unknown, the interval extends by the value itself to each side.
/// REQUIRES: at least one value
Measured mean_interval(std::span<const double> values, std::string unit);

/// Returns the median of `values` with the distribution-free interval from order statistics
/// (binomial, 95 %). With fewer than six values the interval is their range.
/// REQUIRES: at least one value
Measured median_interval(std::span<const double> values, std::string unit);

/// Converts the seconds between consecutive events to events per second: 1 / their mean.
/// Neighboring steps are not independent, so the interval is computed from the means of `batches`
/// consecutive blocks (the method of batch means). The interval of the rate has the same relative
/// width as that of the mean duration.
/// REQUIRES: at least one duration, not all 0
Measured rate_from_durations(std::span<const double> durations_s, std::string unit,
                             std::size_t batches = 16);

/// Returns the ratio a / b of two rates, with the unit "1". Its interval contains the ratios of all
/// values in the intervals of a and b: `high` is infinite if b's interval reaches 0. If b is not
/// above 0, the result has n = 0.
Measured ratio(const Measured& a, const Measured& b);

/// Returns the two-sided 95 % quantile of Student's t with `degrees` degrees of freedom.
/// REQUIRES: degrees >= 1
double student_t_95(std::size_t degrees);

}  // namespace slipstream
