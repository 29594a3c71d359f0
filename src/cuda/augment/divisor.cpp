#include "cuda/augment/divisor.h"

#include <cmath>

#include "cuda/augment/evaluate.h"

namespace slipstream::augment {
namespace {

/// The smallest mantissa of a float as an integer.
constexpr std::int64_t kOne = std::int64_t{1} << 23;

/// Returns the inverse of an odd number modulo 2^64, by Newton's iteration: each step doubles the
/// number of correct bits.
std::uint64_t inverse_of_odd(std::uint64_t odd) {
  std::uint64_t inverse = odd;
  for (int i = 0; i < 6; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

/// Calls use(x) for mantissas x where 2^bits x = middle y + off for an odd `middle` of 25 bits: for
/// these x, x / y is that close to the midpoint between two floats, and rounding could go wrong.
template <typename Use>
void each_near_middle(std::int64_t y, int bits, std::int64_t off, const Use& use) {
  int twos = 0;
  while ((y >> twos) % 2 == 0) ++twos;
  if (off % (std::int64_t{1} << twos) != 0) return;
  const std::int64_t apart = std::int64_t{1} << (bits - twos);
  const std::uint64_t residue = static_cast<std::uint64_t>(-(off >> twos)) *
                                inverse_of_odd(static_cast<std::uint64_t>(y >> twos));
  const auto first = static_cast<std::int64_t>(residue & static_cast<std::uint64_t>(apart - 1));
  for (std::int64_t middle = first; middle < 4 * kOne; middle += apart) {
    if (middle < 2 * kOne || middle % 2 == 0) continue;
    const std::int64_t x = (middle * y + off) >> bits;
    if (x >= kOne && x < 2 * kOne && (x >= y) == (bits == 24)) use(x);
  }
}

}  // namespace

bool is_exact(const Divisor& divisor) {
  int exponent = 0;
  const float mantissa = std::ldexp(std::frexp(divisor.value, &exponent), 24);
  const Divisor scaled = {mantissa,
                          std::ldexp(divisor.inverse, exponent - 24),
                          std::ldexp(divisor.rest, exponent - 24),
                          false,
                          false,
                          true};
  bool result = true;
  // The error of summed_quotient() is less than 2^-47 of x / y, and the distance to a midpoint is
  // off / (2^bits x) of it. So only the few x with a small |off| must be tested, instead of all
  // 2^23 mantissas.
  for (const int bits : {24, 25}) {
    for (std::int64_t off = -4; off <= 4; ++off) {
      each_near_middle(static_cast<std::int64_t>(mantissa), bits, off, [&](std::int64_t x) {
        const auto value = static_cast<float>(x);
        result &= summed_quotient(value, scaled) == value / mantissa;
      });
    }
  }
  return result;
}

Divisor make_divisor(float value) {
  if (!(value > 0x1p-30F && value < 0x1p30F)) return {value, 0, 0, false, false, true};
  const float inverse = 1.0F / value;
  Divisor divisor = {value, inverse, fused(-value, inverse, 1.0F) / value, false, false, true};
  divisor.is_exact = is_exact(divisor);
  return divisor;
}

}  // namespace slipstream::augment
