#include "transforms/elementary.h"

#include <cmath>

namespace slipstream {
namespace {

constexpr double kLog2 = 0x1.62e42fefa39efp-1;
constexpr double kRadian = 0x1.1df46a2529d39p-6;  // pi / 180
constexpr int kTerms = 24;

}  // namespace

// log x = e log 2 + 2 atanh((m - 1) / (m + 1)), with m in [0.7, 1.4), where the series converges
// fast.
double exact_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.7) {
    m *= 2;
    --exponent;
  }
  const double z = (m - 1) / (m + 1);
  double sum = 0;
  for (int k = kTerms; k >= 0; --k) sum = sum * (z * z) + 1.0 / (2 * k + 1);
  return exponent * kLog2 + 2 * z * sum;
}

// exp x = 2^n exp r, with |r| at most half of log 2, where the series converges fast.
double exact_exp(double x) {
  const double n = std::floor(x / kLog2 + 0.5);
  const double r = x - n * kLog2;
  double sum = 1;
  for (int k = kTerms; k >= 1; --k) sum = 1 + sum * r / k;
  return std::ldexp(sum, static_cast<int>(n));
}

// Reduces the angle to the nearest multiple of 90 degrees plus a rest of at most 45 degrees, for
// which the series are evaluated. In degrees this reduction is exact.
SineCosine exact_sine_cosine(double degrees) {
  const double quarters = std::floor(degrees / 90 + 0.5);
  const double x = (degrees - 90 * quarters) * kRadian;
  double sine = 1;
  double cosine = 1;
  for (int k = kTerms; k >= 2; k -= 2) {
    cosine = 1 - cosine * (x * x) / (k * (k - 1));
    sine = 1 - sine * (x * x) / (k * (k + 1));
  }
  sine *= x;
  switch (static_cast<int>(quarters - 4 * std::floor(quarters / 4))) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

}  // namespace slipstream
