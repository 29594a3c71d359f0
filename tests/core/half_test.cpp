#include "core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace slipstream {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Half, RoundTripKeepsEveryHalf) {
  for (std::uint32_t bits = 0; bits < 65'536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float f16 = from_f16(half);
    if (std::isnan(f16)) {
      EXPECT_EQ(to_f16(f16), half | 0x200) << bits;
    } else {
      ASSERT_EQ(to_f16(f16), half) << bits;
    }
    const float bf16 = from_bf16(half);
    EXPECT_EQ(to_bf16(bf16), std::isnan(bf16) ? half | 0x40 : half) << bits;
  }
}

TEST(Half, ConvertsKnownBitPatterns) {
  EXPECT_EQ(from_f16(0x3c00), 1.0F);
  EXPECT_EQ(from_f16(0xc000), -2.0F);
  EXPECT_EQ(from_f16(0x7bff), 65'504.0F);
  EXPECT_EQ(from_f16(0x0001), 0x1p-24F);
  EXPECT_EQ(from_f16(0x0400), 0x1p-14F);
  EXPECT_EQ(from_f16(0xfc00), -kInfinity);
  EXPECT_EQ(from_bf16(0x3f80), 1.0F);
  EXPECT_EQ(from_bf16(0xff80), -kInfinity);
}

/// Returns the one of two adjacent half floats that is nearer to `value`, or the even one in a tie.
std::uint16_t nearest(float value, float (*from)(std::uint16_t), std::uint16_t below) {
  const auto above = static_cast<std::uint16_t>(below + 1);
  const double low = static_cast<double>(value) - static_cast<double>(from(below));
  const double high = static_cast<double>(from(above)) - static_cast<double>(value);
  if (low != high) return low < high ? below : above;
  return below % 2 == 0 ? below : above;
}

void check_between(float (*from)(std::uint16_t), std::uint16_t (*to)(float), std::uint16_t last) {
  for (std::uint16_t below = 0; below < last; ++below) {
    const float low = from(below);
    const float high = from(static_cast<std::uint16_t>(below + 1));
    const float middle = low / 2 + high / 2;
    for (const float value :
         {low, std::nextafter(low, kInfinity), std::nextafter(middle, 0.0F), middle,
          std::nextafter(middle, kInfinity), std::nextafter(high, 0.0F)}) {
      if (value < low || value > high) continue;
      const std::uint16_t expected = nearest(value, from, below);
      ASSERT_EQ(to(value), expected) << value;
      ASSERT_EQ(to(-value), expected | 0x8000) << value;
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  check_between(from_f16, to_f16, 0x7bff);
  check_between(from_bf16, to_bf16, 0x7f7f);
}

TEST(Half, TooLargeValuesBecomeInfinity) {
  EXPECT_EQ(to_f16(65'519.0F), 0x7bff);
  EXPECT_EQ(to_f16(65'520.0F), 0x7c00);
  EXPECT_EQ(to_f16(-std::numeric_limits<float>::max()), 0xfc00);
  EXPECT_EQ(to_f16(kInfinity), 0x7c00);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace slipstream
