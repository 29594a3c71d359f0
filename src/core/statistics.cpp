#include "slipstream/core/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr double kNormal95 = 1.959963984540054;

double compute_mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Half the width of the 95 % interval around the mean.
/// REQUIRES: at least two values
double half_width(std::span<const double> values) {
  const double mean = compute_mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto n = static_cast<double>(values.size());
  return student_t_95(values.size() - 1) * std::sqrt(squares / (n - 1) / n);
}

/// Number of the `n` sorted values that are outside the median's interval on each side: the largest
/// k with P(Binomial(n, 1/2) <= k) <= 0.025, or 0 if there is no such k.
std::size_t outside_median_interval(std::size_t n) {
  const auto trials = static_cast<double>(n);
  // The binomial probabilities are computed as logarithms, because 2^-n underflows for large n.
  double log_probability = -trials * std::log(2.0);
  double below = 0;
  for (std::size_t k = 0; k < n; ++k) {
    below += std::exp(log_probability);
    if (below > 0.025) return k == 0 ? 0 : k - 1;
    log_probability += std::log((trials - static_cast<double>(k)) / static_cast<double>(k + 1));
  }
  return 0;
}

}  // namespace

double student_t_95(std::size_t degrees) {
  static constexpr std::array<double, 30> kTable = {
      12.7062047364, 4.3026527297, 3.1824463053, 2.7764451052, 2.5705818356, 2.4469118511,
      2.3646242516,  2.3060041352, 2.2621571628, 2.2281388520, 2.2009851601, 2.1788128297,
      2.1603686565,  2.1447866879, 2.1314495456, 2.1199052992, 2.1098155778, 2.1009220402,
      2.0930240544,  2.0859634473, 2.0796138447, 2.0738730679, 2.0686576104, 2.0638985616,
      2.0595385528,  2.0555294386, 2.0518305165, 2.0484071418, 2.0452296421, 2.0422724563};
  ensure(degrees > 0, "Student's t has at least one degree of freedom");
  if (degrees <= kTable.size()) return kTable[degrees - 1];
  // Cornish and Fisher's expansion around the normal quantile. Its error is below 1e-6 for more
  // than 30 degrees of freedom; for fewer it grows, hence the table.
  const double z = kNormal95;
  const double v = static_cast<double>(degrees);
  const double z3 = z * z * z;
  const double z5 = z3 * z * z;
  const double z7 = z5 * z * z;
  return z + (z3 + z) / (4 * v) + (5 * z5 + 16 * z3 + 3 * z) / (96 * v * v) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * v * v * v);
}

Measured mean_interval(std::span<const double> values, std::string unit) {
  ensure(!values.empty(), "a mean needs a value");
  const double mean = compute_mean(values);
  // One value says nothing about the spread, so the interval reaches from 0 to twice the value.
  const double half = values.size() == 1 ? std::abs(mean) : half_width(values);
  return {mean, mean - half, mean + half, std::move(unit), values.size()};
}

Measured median_interval(std::span<const double> values, std::string unit) {
  ensure(!values.empty(), "a median needs a value");
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  const double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
  const std::size_t outside = outside_median_interval(n);
  return {median, sorted[outside], sorted[n - 1 - outside], std::move(unit), n};
}

Measured rate_from_durations(std::span<const double> durations_s, std::string unit,
                             std::size_t batches) {
  ensure(!durations_s.empty(), "a rate needs a duration");
  const double mean = compute_mean(durations_s);
  ensure(mean > 0, "durations are positive");
  // Neighboring steps are correlated, so treating them as independent would give an interval that
  // is too narrow. Means of long blocks are nearly independent.
  const std::size_t blocks = std::clamp<std::size_t>(batches, 1, durations_s.size());
  std::vector<double> means(blocks);
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t first = i * durations_s.size() / blocks;
    const std::size_t last = (i + 1) * durations_s.size() / blocks;
    means[i] = compute_mean(durations_s.subspan(first, last - first));
  }
  // First-order error propagation: the relative error of 1 / mean is that of the mean.
  const double relative = blocks == 1 ? 1 : half_width(means) / mean;
  const double rate = 1 / mean;
  return {rate, rate * std::max(0.0, 1 - relative), rate * (1 + relative), std::move(unit), blocks};
}

Measured ratio(const Measured& a, const Measured& b) {
  if (!(b.value > 0)) return {0, 0, 0, "1", 0};
  // Bounds of the quotient in interval arithmetic, which is wider than 95 % but needs no assumption
  // about how a and b are correlated.
  const double high = b.low > 0 ? a.high / b.low : std::numeric_limits<double>::infinity();
  return {a.value / b.value, a.low / b.high, high, "1", std::min(a.n, b.n)};
}

}  // namespace slipstream
