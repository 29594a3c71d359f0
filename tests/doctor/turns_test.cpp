#include "doctor/turns.h"

#include <gmock/gmock.h>

#include <map>

namespace slipstream::test {
namespace {

using testing::HasSubstr;

/// Tasks whose intervals become narrower the longer they are measured, with a simulated clock.
class TurnsTest : public testing::Test {
 protected:
  void add(const std::string& what, bool is_essential, double weight, double wild) {
    tasks_.push_back({what, {}, &errors_[what], is_essential, weight, [this, what, wild] {
                        const double given_s = given_s_[what];
                        const double half = given_s > 0 ? wild / given_s : 1;
                        return Measured{1, 1 - half, 1 + half, "steps/s", given_s > 0 ? 4U : 0U};
                      }});
  }

  void measure(double budget_s) {
    measure_in_turns(tasks_, {budget_s, [&] { return budget_s - passed_s_; }, [] { return false; },
                              [this](Task& task, const TurnTime& time) {
                                const double seconds = time.wanted_s;
                                most_s_.push_back(time.most_s);
                                const double took_s = seconds + kOverheadS;
                                task.turn_s = took_s;
                                passed_s_ += took_s;
                                given_s_[task.what] += seconds;
                                order_.push_back(task.what);
                                turns_s_.push_back(seconds);
                              },
                              doubtful_});
  }

  static constexpr double kOverheadS = 0.3;
  std::map<std::string, std::string> errors_;
  std::map<std::string, double> given_s_;
  std::deque<Task> tasks_;
  std::function<Task*()> doubtful_;
  std::vector<std::string> order_;
  std::vector<double> turns_s_;
  std::vector<double> most_s_;
  double passed_s_ = 0;
};

TEST_F(TurnsTest, EssentialTasksRunFirst) {
  add("a level", false, 1, 0.001);
  add("ceiling", true, 1, 0.001);
  add("whole", true, 4, 0.001);
  measure(10);
  EXPECT_THAT(order_, testing::ElementsAre("ceiling", "whole", "a level"));
}

TEST_F(TurnsTest, TaskWithWidestIntervalGetsMostTime) {
  add("ceiling", true, 1, 0.001);
  add("whole", true, 4, 0.1);
  for (const char* level : {"a", "b", "c"}) add(level, false, 1, 0.001);
  measure(20);
  for (const auto& [what, seconds] : given_s_) EXPECT_LE(seconds, given_s_["whole"]) << what;
  EXPECT_LT(0.1 / given_s_["whole"], 0.02);
}

TEST_F(TurnsTest, NoisyTaskLeavesTimeForOthers) {
  add("ceiling", true, 1, 0.001);
  add("whole", true, 4, 2.5);
  for (char name = 'a'; name < 'a' + 17; ++name) add({1, name}, false, 1, 0.001);
  measure(60);
  for (const auto& [what, error] : errors_) EXPECT_EQ(error, "") << what;
  for (const auto& [what, seconds] : given_s_) EXPECT_GT(seconds, 0.5) << what;
  EXPECT_GT(given_s_["whole"], 20);
}

TEST_F(TurnsTest, NextTurnIsBoundedByTasksPreviousTurn) {
  add("whole", true, 4, 2.5);
  for (char name = 'a'; name < 'a' + 17; ++name) add({1, name}, false, 1, 0.001);
  add("wild", false, 1, 3);
  measure(60);
  const auto first = std::find(order_.begin(), order_.end(), "wild");
  const auto at = static_cast<std::size_t>(first - order_.begin());
  ASSERT_LT(at + 1, order_.size());
  ASSERT_EQ(order_[at + 1], "wild");
  EXPECT_LE(turns_s_[at + 1], std::max(2 * turns_s_[at], 0.06 * 60));
}

TEST_F(TurnsTest, FailedTaskGetsNoTurn) {
  add("whole", true, 4, 0.1);
  add("a level", false, 1, 0.1);
  errors_["a level"] = "a corrupt file";
  measure(10);
  EXPECT_EQ(given_s_["a level"], 0);
}

TEST_F(TurnsTest, StopsEarlyOnceAllIntervalsAreNarrow) {
  add("ceiling", true, 1, 0.001);
  add("whole", true, 4, 0.001);
  measure(1000);
  EXPECT_LT(passed_s_, 500);
}

TEST_F(TurnsTest, DoubtfulTaskIsMeasuredAnewOnce) {
  add("ceiling", true, 1, 0.001);
  add("whole", true, 4, 0.001);
  add("a level", false, 1, 0.001);
  tasks_[0].restart = [this] { given_s_["ceiling"] = 0; };
  doubtful_ = [&] { return &tasks_[0]; };
  measure(1000);
  EXPECT_THAT(order_, testing::ElementsAre("ceiling", "whole", "ceiling", "a level"));
  EXPECT_EQ(given_s_["ceiling"], turns_s_[2]) << "the first turn is forgotten";
}

TEST_F(TurnsTest, DoubtfulTaskIsNotRepeatedWithoutTimeLeft) {
  add("ceiling", true, 1, 0.001);
  add("whole", true, 4, 0.001);
  doubtful_ = [&] { return &tasks_[0]; };
  measure(0.1);
  EXPECT_THAT(order_, testing::ElementsAre("ceiling", "whole"));
}

/// With a small budget, 30 other tasks would use all of the time.
TEST_F(TurnsTest, TasksThatVerdictNeedsComeBeforeUntriedOnes) {
  add("ceiling", true, 1, 0.001);
  add("whole", true, 4, 0.5);
  for (char name = 'a'; name < 'a' + 30; ++name) add({1, name}, false, 1, 0.001);
  measure(4);
  const auto first = std::find(order_.begin(), order_.end(), "a");
  EXPECT_GT(std::count(order_.begin(), first, "whole"), 2);
}

TEST_F(TurnsTest, TaskWithoutTimeGetsErrorToRaiseBudget) {
  add("ceiling", true, 1, 0.01);
  add("whole", true, 4, 0.01);
  add("a level", false, 1, 0.01);
  measure(0.1);
  EXPECT_THAT(order_, testing::ElementsAre("ceiling", "whole"))
      << "essential tasks run for any budget";
  EXPECT_THAT(errors_["a level"], HasSubstr("raise the budget"));
}

TEST_F(TurnsTest, EssentialTasksDivideRemainingBudget) {
  add("ceiling", true, 1, 0.01);
  add("whole", true, 4, 0.01);
  add("a level", false, 1, 0.01);
  measure(10);
  ASSERT_GE(most_s_.size(), 3U);
  EXPECT_DOUBLE_EQ(most_s_[0], 5) << "two tasks share 10 s";
  EXPECT_DOUBLE_EQ(most_s_[1], 10 - (turns_s_[0] + kOverheadS));
  EXPECT_DOUBLE_EQ(most_s_[2], most_s_[1] - (turns_s_[1] + kOverheadS));
}

}  // namespace
}  // namespace slipstream::test
