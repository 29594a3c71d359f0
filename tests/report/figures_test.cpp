#include "core/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "report/chart.h"

namespace slipstream {
namespace {

using testing::ElementsAre;

TEST(Text, MeasuredValueIsShownWithFourDigits) {
  EXPECT_EQ(with_interval({0.012345, 0.011, 0.0137, "s", 3}), "0.01235 [0.01100, 0.01370]");
  EXPECT_EQ(with_interval({123456, 123000, 124000, "s", 3}), "123456 [123000, 124000]");
  EXPECT_EQ(with_interval({0, 0, 0, "s", 3}), "0.000 [0.000, 0.000]");
  EXPECT_EQ(with_interval({1, NAN, NAN, "s", 1}), "1.000");
  EXPECT_EQ(with_interval({}), "-");
  EXPECT_EQ(with_interval({NAN, NAN, NAN, "s", 1}), "-");
}

TEST(Text, FixedFormatsEveryNumber) {
  EXPECT_EQ(fixed(-1.005, 1), "-1.0");
  EXPECT_EQ(fixed(INFINITY, 1), "-");
  EXPECT_EQ(fixed(1e308, 12).size(), 309u + 13u);
}

TEST(Text, LossesAreShownWithFourDigits) {
  EXPECT_EQ(loss_figure(2.30149), "2.301");
  EXPECT_EQ(loss_figure(1.23456e-5), "1.235e-05");
  EXPECT_EQ(loss_figure(1e30), "1e+30");
  EXPECT_EQ(loss_figure(0), "0");
  EXPECT_EQ(loss_figure(INFINITY), "inf");
  EXPECT_EQ(loss_figure(NAN), "-");
}

TEST(Ticks, AreRoundAndCoverTheRange) {
  EXPECT_THAT(nice_ticks(0, 610, 6), ElementsAre(0, 200, 400, 600, 800));
  EXPECT_THAT(nice_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_EQ(nice_ticks(1, 1.32, 4).front(), 1);
  for (const double high : {1e-6, 0.3, 7.0, 99.9, 1e9}) {
    const std::vector<double> ticks = nice_ticks(0, high, 5);
    EXPECT_GE(ticks.back(), high * (1 - 1e-6));
    EXPECT_GE(ticks.size(), 3u);
    EXPECT_LE(ticks.size(), 8u);
  }
}

}  // namespace
}  // namespace slipstream
