#include "report/curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/count_in.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Curves, PanelsAndColorsFollowMetricNames) {
  MetricsTable table;
  table.add(10, 0, 0, {{"train/loss", 2.5}, {"train/lr", 0.1}});
  table.add(20, 0, 0, {{"train/loss", 1.5}, {"train/lr", 0.05}, {"val/loss", 2}, {"alone", 7}});
  const std::string svg = curves_svg(table, "a <run>");
  EXPECT_THAT(svg, HasSubstr(">a &lt;run&gt;</text>"));
  EXPECT_THAT(svg, HasSubstr(">loss: train 1.5, val 2</text>"));
  EXPECT_THAT(svg, HasSubstr(">lr: train 0.05</text>"));
  EXPECT_THAT(svg, HasSubstr(">alone: 7</text>"));
  EXPECT_EQ(count_in(svg, ">step</text>"), 3u);
  EXPECT_EQ(count_in(svg, ">15</text>"),
            // labels of the axis, which has no ticks between steps
            3u);
  EXPECT_EQ(count_in(svg, "<polyline class=\"l1\""), 2u);
  EXPECT_EQ(count_in(svg, "<circle class=\"f2\""), 1u);
  EXPECT_THAT(svg, HasSubstr("<title>val/loss at step 20: 2</title>"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
}

TEST(Curves, ManyRowsAreReducedToLowestAndHighestValues) {
  MetricsTable table;
  for (std::uint64_t step = 0; step < 200'000; ++step)
    table.add(step, 0, 0, {{"loss", step == 77'777 ? 9.0 : static_cast<double>(step % 2)}});
  const std::string svg = curves_svg(table, "run");
  EXPECT_LT(svg.size(), 40'000u);
  EXPECT_EQ(count_in(svg, "<circle"), 0u);
  EXPECT_EQ(count_in(svg, ",85.0 "), 1u);  // the point 9 below a top of 10
}

TEST(Curves, NonFiniteAndExtremeValuesGiveValidSvg) {
  constexpr double kHuge = std::numeric_limits<double>::max();
  const std::vector<std::vector<double>> cases = {{},
                                                  {0},
                                                  {0, 0},
                                                  {NAN, 1, HUGE_VAL},
                                                  {kHuge, -kHuge},
                                                  {1e99, -1e99},
                                                  {-5, -5},
                                                  {5e-324, 0},
                                                  {1e-200, 1e-300},
                                                  {1e15, 1e15 + 1},
                                                  {NAN}};
  for (const std::vector<double>& values : cases) {
    MetricsTable table;
    std::uint64_t step = 0;
    for (const double value : values) table.add(step++, 0, 0, {{"loss", value}});
    const std::string svg = curves_svg(table, "run");
    EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
    EXPECT_THAT(svg, Not(HasSubstr("\"-\"")));
  }
}

TEST(Curves, LargestStepNumberIsDrawn) {
  MetricsTable table;
  table.add(std::numeric_limits<std::uint64_t>::max(), 0, 0, {{"loss", 1}});
  EXPECT_THAT(curves_svg(table, "run"), HasSubstr("<circle"));
}

}  // namespace
}  // namespace slipstream
