#include "core/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "support/thrown.h"

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

TEST(NumberText, SizesAreBytesOrPowersOf1024) {
  constexpr std::size_t kKilo = 1024;
  for (const auto& [text, bytes] :
       std::vector<std::pair<std::string, std::size_t>>{{"512", 512},
                                                        {"512B", 512},
                                                        {"8K", 8 * kKilo},
                                                        {"1.5KB", 1536},
                                                        {"2MiB", 2 * kKilo * kKilo},
                                                        {"1GB", kKilo * kKilo * kKilo},
                                                        {"1GiB", kKilo * kKilo * kKilo},
                                                        {"1T", kKilo * kKilo * kKilo * kKilo}})
    EXPECT_EQ(named_size("--cache", "a=b=" + text), std::pair(std::string("a=b"), bytes)) << text;
  for (const std::string text : {"", "B", "iB", "8iB", "G", "8X", "8BG", "-1", "0", "nan", "1e9T"})
    EXPECT_EQ(thrown_by([&] { named_size("--cache", "decode=" + text); }),
              "Refused: --cache decode=" + text + ": '" + text +
                  "' is not a size: give bytes, or a " +
                  "number of K, M, G or T (powers of 1024), for example decode=8G");
  for (const std::string text : {"8G", "=8G"})
    EXPECT_EQ(thrown_by([&] { named_size("", text); }),
              "Refused: " + text + ": give a name and a size, for example NAME=8G");
}

}  // namespace
}  // namespace slipstream
