#include "report/evaluation_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace slipstream {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(EvaluationReport, ConfusionMatrixGivesAccuracyAndIouPerClass) {
  const std::vector<ClassRow> rows = class_rows({3, 1, 0, 0, 0, 0, 1, 0, 4}, {"cat", "dog"});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].name, "cat");
  EXPECT_EQ(rows[0].labels, 4u);
  EXPECT_DOUBLE_EQ(rows[0].accuracy, 0.75);
  EXPECT_DOUBLE_EQ(rows[0].iou, 0.6);
  EXPECT_TRUE(std::isnan(rows[1].accuracy));
  EXPECT_DOUBLE_EQ(rows[1].iou, 0);
  EXPECT_EQ(rows[2].name, "2");
  EXPECT_DOUBLE_EQ(rows[2].accuracy, 0.8);
}

TEST(EvaluationReport, TableShowsLastAndBestOfEachScore) {
  const std::vector<ScoreRow> rows = {{10, 1, {{"loss", 0.5}, {"top1", 0.7}}},
                                      {20, 2, {{"loss", kNaN}, {"top1", 0.8}}},
                                      {30, 3, {{"loss", 0.25}, {"top1", 0.6}}}};
  EXPECT_EQ(score_table(rows),
            "score  last  best  in epoch\n"
            "loss   0.25  0.25         3\n"
            "top1    0.6   0.8         2\n");
}

TEST(EvaluationReport, TableIncludesBestOfEarlierRuns) {
  const std::vector<ScoreRow> rows = {{30, 3, {{"loss", 0.5}, {"top1", 0.7}, {"top5", 0.9}}}};
  EXPECT_EQ(score_table(rows, {{10, 1, {{"top1", 0.75}}}, {20, 2, {{"loss", 0.625}}}}),
            "score  last  best  in epoch\n"
            "loss    0.5   0.5         3\n"
            "top1    0.7  0.75         1\n"
            "top5    0.9   0.9         3\n");
}

TEST(EvaluationReport, TableShowsNanIfNoScoreWasFinite) {
  EXPECT_EQ(score_table({{10, 1, {{"loss", kNaN}}}}),
            "score  last  best  in epoch\n"
            "loss    nan   nan       nan\n");
}

}  // namespace
}  // namespace slipstream
