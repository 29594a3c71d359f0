#include "core/number_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace slipstream {
namespace {

TEST(NumberText, FormatCountPluralizesTheNoun) {
  EXPECT_EQ(format_count(1, "step"), "1 step");
  EXPECT_EQ(format_count(0, "step"), "0 steps");
  EXPECT_EQ(format_count(3, "batch"), "3 batches");
  EXPECT_EQ(format_count(1, "class"), "1 class");
  EXPECT_EQ(format_count(2, "class"), "2 classes");
}

TEST(NumberText, SizeTextPicksAFittingUnit) {
  EXPECT_EQ(size_text(1), "1 byte");
  EXPECT_EQ(size_text(1023), "1023 bytes");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(1023700), "0.976 MiB");
  EXPECT_EQ(size_text(1000 << 10), "0.977 MiB");
  EXPECT_EQ(size_text(256 << 20), "256 MiB");
  EXPECT_EQ(size_text(1 << 30), "1 GiB");
}

TEST(NumberText, SizeTextRoundsFractionsAndShowsDashIfInvalid) {
  EXPECT_EQ(size_text(0), "0 bytes");
  EXPECT_EQ(size_text(1.4), "1 byte");
  EXPECT_EQ(size_text(1023.6), "1 KiB");
  EXPECT_EQ(size_text(NAN), "-");
  EXPECT_EQ(size_text(INFINITY), "-");
  EXPECT_EQ(size_text(-1), "-");
}

}  // namespace
}  // namespace slipstream
