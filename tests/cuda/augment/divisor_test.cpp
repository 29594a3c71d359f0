#include "cuda/augment/divisor.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "cuda/augment/evaluate.h"

namespace slipstream::augment {
namespace {

/// Returns the number of mantissas in [1, 2) whose quotient differs from that of a division.
std::size_t count_wrong_mantissas(const Divisor& divisor) {
  std::size_t wrong = 0;
  for (std::uint32_t mantissa = 0; mantissa < 1U << 23; ++mantissa) {
    const auto value = std::bit_cast<float>(0x3F800000U | mantissa);
    wrong += summed_quotient(value, divisor) != value / divisor.value ? 1 : 0;
  }
  return wrong;
}

TEST(DivisorTest, ExactFlagMatchesCheckOfEveryMantissa) {
  std::mt19937 random(1);
  std::vector<float> values = {1, 3, 255, 0.229F, 0.224F, 0.225F, 0.5F, 1.99999988F};
  for (int i = 0; i < 4; ++i) values.push_back(1 + static_cast<float>(random() >> 8) * 0x1p-24F);
  for (const float value : values) {
    const Divisor divisor = make_divisor(value);
    EXPECT_EQ(divisor.is_exact, count_wrong_mantissas(divisor) == 0) << value;
  }
}

TEST(DivisorTest, InexactDivisorsHaveWrongQuotients) {
  std::size_t found = 0;
  for (std::uint32_t mantissa = 0; mantissa < 1U << 23 && found < 3; mantissa += 1) {
    const Divisor divisor = make_divisor(std::bit_cast<float>(0x3F800000U | mantissa));
    if (divisor.is_exact) continue;
    EXPECT_GT(count_wrong_mantissas(divisor), 0U) << divisor.value;
    ++found;
  }
  EXPECT_EQ(found, 3U);
}

TEST(DivisorTest, UnusualDivisorsHaveNoInverse) {
  for (const float value : {0.0F, -3.0F, 1e-12F, 1e20F}) EXPECT_EQ(make_divisor(value).inverse, 0);
  EXPECT_GT(make_divisor(255).inverse, 0);
}

TEST(DivisorTest, QuotientOfZeroKeepsSign) {
  for (const float value : {0.229F, 0.224F, 0.225F, 255.0F, 3.0F, 7.0F}) {
    const Divisor divisor = make_divisor(value);
    EXPECT_TRUE(std::signbit(quotient(-0.0F, divisor))) << value;
    EXPECT_FALSE(std::signbit(quotient(0.0F, divisor))) << value;
  }
}

TEST(DivisorTest, EveryUint8LevelIsDividedBy255Exactly) {
  for (int level = 0; level <= 255; ++level) {
    const auto value = static_cast<float>(level);
    EXPECT_EQ(from_level(value), value / 255.0F) << level;
  }
}

}  // namespace
}  // namespace slipstream::augment
