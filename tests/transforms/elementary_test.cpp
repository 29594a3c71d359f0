#include "transforms/elementary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace slipstream {
namespace {

TEST(Elementary, LogAndExpMatchTheStandardLibrary) {
  for (double x = 0.001; x < 1000; x *= 1.01) {
    EXPECT_NEAR(exact_log(x), std::log(x), 1e-12 * std::max(1.0, std::abs(std::log(x))));
    const double power = std::log(x);
    EXPECT_NEAR(exact_exp(power) / std::exp(power), 1, 1e-12);
  }
  EXPECT_EQ(exact_log(1), 0);
  EXPECT_EQ(exact_exp(0), 1);
}

TEST(Elementary, ExpOfVeryNegativeNumbersIsZero) {
  EXPECT_EQ(exact_exp(-5000), 0);
  EXPECT_EQ(exact_exp(-4'805'000), 0);
}

TEST(Elementary, SineAndCosineMatchTheStandardLibrary) {
  constexpr long double kPi = 3.14159265358979323846264338327950288L;
  for (int i = -72'000; i <= 72'000; ++i) {
    const double degrees = i * 0.01;
    const long double radians = degrees * kPi / 180;
    const SineCosine of = exact_sine_cosine(degrees);
    ASSERT_LT(std::abs(of.sine - std::sin(radians)), 1e-15L) << degrees;
    ASSERT_LT(std::abs(of.cosine - std::cos(radians)), 1e-15L) << degrees;
  }
}

TEST(Elementary, SineAndCosineOfRightAnglesAreExact) {
  constexpr double kSines[] = {0, 1, 0, -1};
  for (int quarters = -8; quarters <= 8; ++quarters) {
    const SineCosine of = exact_sine_cosine(90.0 * quarters);
    EXPECT_EQ(of.sine, kSines[(quarters + 8) % 4]) << quarters;
    EXPECT_EQ(of.cosine, kSines[(quarters + 9) % 4]) << quarters;
  }
}

}  // namespace
}  // namespace slipstream
