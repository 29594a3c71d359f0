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

/// Mean of `values` with Student's t interval. One value gives an interval of [0, 2 x value]: not
/// known. REQUIRES: at least one value.
Measured mean_interval(std::span<const double> values, std::string unit);

/// Median with the distribution-free interval from order statistics (binomial, 95 %). With fewer
/// than six values the interval is their range.
Measured median_interval(std::span<const double> values, std::string unit);

/// Events per second from the times (s) between consecutive events: their reciprocal mean, with
/// the interval of the means of `batches` consecutive blocks (batch means: neighboring steps are
/// not independent), as wide in relation to the rate as the mean duration's is to that.
/// REQUIRES: at least one duration, not all 0
Measured rate_from_durations(std::span<const double> durations_s, std::string unit,
                             std::size_t batches = 16);

/// a over b, of two rates: unit "1". The interval holds the ratios of all values in theirs: its
/// high is infinite where b's reaches 0. Nothing (n 0) where b is not above 0.
Measured ratio(const Measured& a, const Measured& b);

/// Two-sided 95 % quantile of Student's t with `degrees` degrees of freedom, degrees >= 1.
double student_t_95(std::size_t degrees);

}  // namespace slipstream
