#include "transforms/beta.h"

#include <algorithm>
#include <cmath>

#include "transforms/elementary.h"

namespace slipstream {
namespace {

constexpr double kLargestPower = 700;  // keeps exp() finite; the result is 0 or 1 long before

}  // namespace

double symmetric_beta(double alpha, RandomStream& stream) {
  const std::uint64_t high = stream.next();
  const std::uint64_t bits = high << 32 | stream.next();
  // The half keeps u above 0, where its logarithm is finite.
  const double u = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  const double turn = stream.next() * 0x1p-32;
  const double cosine = exact_sine_cosine(360 * turn).cosine;
  const double power = exact_exp(std::min(-exact_log(u) / alpha, kLargestPower));
  const double square = std::max(power - 1, 0.0) * (cosine * cosine);  // T^2 / (2 alpha)
  const double half = std::sqrt(square / (1 + square)) / 2;
  return cosine < 0 ? 0.5 - half : 0.5 + half;
}

}  // namespace slipstream
