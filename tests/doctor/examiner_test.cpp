#include "doctor/examiner.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Level named(const std::string& name, const std::string& after, std::size_t items) {
  Level level;
  level.name = name;
  level.after = after;
  level.items = items;
  return level;
}

/// A loop with a simulated clock and given rates.
class StatedLoop : public ExaminedLoop {
 public:
  double seconds() const override { return now_s_; }
  unsigned workers() const override { return workers_; }
  std::size_t batch_size() const override { return 4; }
  bool fills_cache() const override { return fills_cache_; }
  MachineCapacity capacity(unsigned cores) const override {
    return {static_cast<double>(cores), 1, 1};
  }
  Observations describe() const override {
    Observations observed;
    observed.workers = workers_;
    observed.situation.cores = 3;
    return observed;
  }
  RateInTurns loader_alone(WorkerCount count) override {
    if (count == WorkerCount::one) return rate("one worker", 10);
    return count == WorkerCount::half ? rate("half", 15) : rate("all workers", 20);
  }
  SampleCosts sample_costs() const override { return {{0.1, 0.1}, {100, 200}}; }
  std::vector<ExaminedLevel> make_levels(const CacheSizes& sizes) override {
    std::vector<ExaminedLevel> levels(3);
    levels[0].level = named("device batch", "copy", sizes.batches());
    levels[1].level = named("processed sample", "resize", sizes.samples_after(1));
    levels[2].level = named("nothing cached", "", 0);
    levels[0].is_essential = levels[2].is_essential = true;
    levels[0].training = rate("ceiling", ceiling_);
    if (cold_ceiling_ > 0) levels[0].training.figure = [this] { return ceiling(); };
    levels[0].training.restart = [this] {
      is_restarted_ = true;
      turns_["ceiling"] = 0;
    };
    levels[1].training = rate("sample", 50);
    levels[2].training = rate("whole", whole_);
    levels[1].loader_alone = rate("sample alone", 40);
    return levels;
  }
  std::vector<OtherRate> make_other_rates(const CacheSizes&) override {
    return {{"copy alone", rate("copy", 100)}, {"a guess", rate("guess", 100), false}};
  }
  std::string take_failure() override {
    try {
      throw;
    } catch (const Refused&) {
      throw;
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  void add_findings(Observations& observed) override { observed.line_cpu_s = 7; }

  std::vector<std::string> order_;             ///< the names of the measurements
  std::map<std::string, double> wanted_s_;     ///< requested time of each first turn
  std::map<std::string, std::string> errors_;  ///< errors of measurements that fail
  unsigned workers_ = 2;
  bool fills_cache_ = false;
  double ceiling_ = 100, whole_ = 5;
  double cold_ceiling_ = 0;  ///< ceiling until it is restarted; 0: the same
  double cost_s_ = 0.01;     ///< cost of a turn beyond the requested time

 private:
  RateInTurns rate(const std::string& what, double value) {
    return {[this, what](const TurnTime& time) {
              order_.push_back(what);
              wanted_s_.try_emplace(what, time.wanted_s);
              now_s_ += time.wanted_s + cost_s_;
              if (errors_.contains(what)) throw Error(errors_[what]);
              ++turns_[what];
            },
            [this, what, value] {
              return Measured{value, 0.999 * value, 1.001 * value, "1/s", turns_[what]};
            }};
  }

  Measured ceiling() {
    const double value = is_restarted_ ? ceiling_ : cold_ceiling_;
    return {value, 0.999 * value, 1.001 * value, "1/s", turns_["ceiling"]};
  }

  bool is_restarted_ = false;
  double now_s_ = 0;
  std::map<std::string, std::size_t> turns_;
};

class ExaminerTest : public testing::Test {
 protected:
  Observations examine(double budget_s = 100) {
    options_.budget_s = budget_s;
    return Examiner(loop_, options_).run();
  }

  StatedLoop loop_;
  DoctorOptions options_;
};

TEST_F(ExaminerTest, EssentialFiguresAreMeasuredFirst) {
  examine();
  EXPECT_THAT(loop_.order_, ElementsAre("one worker", "all workers", "ceiling", "whole", "sample",
                                        "copy", "guess", "sample alone"));
}

TEST_F(ExaminerTest, TurnsShareTheBudgetByWeight) {
  examine();
  EXPECT_DOUBLE_EQ(loop_.wanted_s_["one worker"], 8);
  EXPECT_DOUBLE_EQ(loop_.wanted_s_["all workers"], 3);
  EXPECT_DOUBLE_EQ(loop_.wanted_s_["whole"], 4 * loop_.wanted_s_["ceiling"]);
  EXPECT_DOUBLE_EQ(loop_.wanted_s_["copy"], loop_.wanted_s_["ceiling"]);
}

TEST_F(ExaminerTest, LoaderRatesCountBatchesInLevelsAndSamplesElsewhere) {
  const Observations observed = examine();
  EXPECT_EQ(observed.rate_of_one_worker.value, 10);
  EXPECT_EQ(observed.rate_of_all_workers.value, 20);
  EXPECT_EQ(observed.levels[1].loader_alone->value, 40 / 4.0);
  EXPECT_EQ(observed.levels[1].loader_alone->unit, "steps/s");
  EXPECT_EQ(observed.levels[2].loader_alone->value, 20 / 4.0);
  EXPECT_FALSE(observed.levels[0].loader_alone);
  EXPECT_EQ(observed.levels[2].with_training->value, 5);
  EXPECT_EQ(observed.levels[0].items, 4U);
  EXPECT_EQ(observed.capacity.cores, 3);
  EXPECT_EQ(observed.line_cpu_s, 7);
  EXPECT_THAT(observed.warnings, IsEmpty());
}

TEST_F(ExaminerTest, HalfOfTheWorkersIsMeasuredFromFourWorkersUp) {
  EXPECT_EQ(examine().rate_of_half_of_workers.n, 0U);
  StatedLoop many;
  many.workers_ = 4;
  EXPECT_EQ(Examiner(many, options_).run().rate_of_half_of_workers.value, 15);
}

TEST_F(ExaminerTest, NoRateOfOneWorkerWithoutWorkers) {
  loop_.workers_ = 0;
  EXPECT_EQ(examine().rate_of_one_worker.n, 0U);
}

TEST_F(ExaminerTest, LoaderThatFillsACacheIsMeasuredAmongTheEssentials) {
  loop_.fills_cache_ = true;
  examine();
  loop_.order_.resize(4);
  EXPECT_THAT(loop_.order_, ElementsAre("one worker", "ceiling", "whole", "all workers"));
}

TEST_F(ExaminerTest, FailedMeasurementHasItsReason) {
  loop_.errors_ = {{"whole", "a corrupt file"},
                   {"all workers", "no memory"},
                   {"sample alone", "no such step"},
                   {"copy", "no device"},
                   {"guess", "no engine"}};
  const Observations observed = examine();
  EXPECT_EQ(observed.levels[2].error, "a corrupt file");
  EXPECT_EQ(observed.levels[2].loader_alone_error, "no memory");
  EXPECT_EQ(observed.levels[1].loader_alone_error, "no such step");
  EXPECT_FALSE(observed.levels[2].with_training);
  EXPECT_EQ(observed.rate_of_all_workers.n, 0U);
  EXPECT_THAT(observed.warnings, ElementsAre("not measured: copy alone: no device"));
}

TEST_F(ExaminerTest, MissingCeilingOrWholeLoopIsAnError) {
  loop_.errors_ = {{"ceiling", "out of memory"}, {"whole", "a corrupt file"}};
  EXPECT_EQ(thrown_by([&] { examine(); }),
            "Error: neither the ceiling nor the whole loop could be measured: out of memory");
}

TEST_F(ExaminerTest, FatalErrorEndsTheExamination) {
  class Refusing : public StatedLoop {
    std::string take_failure() override { throw Refused("lost"); }
  } refusing;
  refusing.errors_ = {{"sample", "the device"}};
  EXPECT_EQ(thrown_by([&] { Examiner(refusing, options_).run(); }), "Refused: lost");
}

TEST_F(ExaminerTest, CeilingThatALaterLevelExceedsIsMeasuredAnew) {
  loop_.cold_ceiling_ = 40;  // below the level of processed samples, which reaches 50 steps/s
  const Observations observed = examine();
  EXPECT_EQ(std::count(loop_.order_.begin(), loop_.order_.end(), "ceiling"), 2);
  EXPECT_EQ(std::count(loop_.order_.begin(), loop_.order_.end(), "whole"), 1);
  EXPECT_EQ(observed.levels.front().with_training->value, 100) << "the first turn is forgotten";
}

TEST_F(ExaminerTest, CeilingThatStaysTooLowIsMeasuredAnewOnlyOnce) {
  loop_.whole_ = 200;
  examine();
  EXPECT_EQ(std::count(loop_.order_.begin(), loop_.order_.end(), "ceiling"), 2);
}

/// Returns the budget that a refusal proposes.
double proposed_budget(const std::string& refusal) {
  const std::string words = "give a budget of ";
  const std::size_t at = refusal.find(words);
  return at == std::string::npos ? 0 : std::stod(refusal.substr(at + words.size()));
}

TEST_F(ExaminerTest, SmallBudgetIsRefusedBeforeAnyLevelAndProposedOneWorks) {
  const std::string refusal = thrown_by([&] { examine(0.5); });
  EXPECT_THAT(refusal, testing::StartsWith("Refused: a budget of 0.5 s is too small: "));
  EXPECT_THAT(refusal, HasSubstr("because a batch takes the loader about"));
  EXPECT_THAT(loop_.order_, ElementsAre("one worker"));
  const double budget_s = proposed_budget(refusal);
  EXPECT_GT(budget_s, 0.5);
  StatedLoop again;
  options_.budget_s = budget_s;
  const Observations observed = Examiner(again, options_).run();
  for (const Level& level : observed.levels) EXPECT_TRUE(level.with_training) << level.name;
}

TEST_F(ExaminerTest, RefusalStatesTheBudgetThatTheUserGave) {
  const double whole_s = proposed_budget(thrown_by([&] { examine(0.5); }));
  StatedLoop again;
  options_.budget_share = 0.5;
  const std::string refusal = thrown_by([&] { Examiner(again, options_).run(); });
  EXPECT_THAT(refusal, HasSubstr("a budget of 1 s is too small"));
  EXPECT_NEAR(proposed_budget(refusal), 2 * whole_s, 1);
}

TEST_F(ExaminerTest, BudgetForFewSlowStepsIsRefusedAfterTheFirstLevel) {
  loop_.ceiling_ = loop_.whole_ = 0.1;
  const std::string refusal = thrown_by([&] { examine(100); });
  EXPECT_THAT(refusal, HasSubstr("and a training step about 10 s"));
  EXPECT_THAT(loop_.order_, ElementsAre("one worker", "all workers", "ceiling"));
  EXPECT_GT(proposed_budget(refusal), 100);
}

TEST_F(ExaminerTest, TimeToStartWorkersCountsForTheSmallestBudget) {
  loop_.cost_s_ = 9;
  EXPECT_THAT(thrown_by([&] { examine(30); }), HasSubstr("is too small"));
}

CacheSizes::Limits limits(double free_bytes = 8e9, double cpu_cache_bytes = 0) {
  return {.budget_s = 10, .free_bytes = free_bytes, .cpu_cache_bytes = cpu_cache_bytes};
}

TEST(CacheSizes, SlowBatchesAreFewer) {
  EXPECT_EQ(CacheSizes({}, 100, 4, limits()).batches(), 4U);
  EXPECT_EQ(CacheSizes({}, 10, 4, limits()).batches(), 2U);
  EXPECT_EQ(CacheSizes({}, 2, 4, limits()).batches(), 1U);
}

TEST(CacheSizes, SampleCountFollowsSpreadAndExceedsCpuCache) {
  const SampleCosts even{{1, 1, 1}, {1000, 10}}, wild{{1, 2}, {1000, 10}};
  const double variation = std::sqrt(0.5) / 1.5;
  EXPECT_EQ(CacheSizes(even, 1e6, 4, limits()).samples_after(0), 8U) << "the minimum";
  EXPECT_EQ(CacheSizes(wild, 1e6, 4, limits()).samples_after(0),
            static_cast<std::size_t>(std::pow(1.96 * variation / 0.05, 2)));
  EXPECT_EQ(CacheSizes(even, 1e6, 4, limits(8e9, 1e6)).samples_after(0), 1500U);
  EXPECT_EQ(CacheSizes(even, 1e6, 4, limits(8e9, 1e8)).samples_after(1), 65536U) << "the maximum";
}

TEST(CacheSizes, MemoryAndTimeLimitSamples) {
  const SampleCosts costs{{1, 1}, {1000, 10}};
  EXPECT_EQ(CacheSizes(costs, 1e6, 4, limits(800'000, 1e6)).samples_after(0), 100U);
  EXPECT_EQ(CacheSizes(costs, 1e3, 4, limits(8e9, 1e6)).samples_after(0), 200U);
  const SampleCosts in_turns{{1, 1}, {1000, 10}, CacheFilling::in_turns};
  EXPECT_EQ(CacheSizes(in_turns, 1e3, 4, limits(8e9, 1e6)).samples_after(0), 40U);
}

TEST(CacheSizes, OneProcessFillsTheCachesOfAllLevels) {
  const SampleCosts costs{{1e-4, 3e-4}, {1000, 3000}, CacheFilling::at_once};
  const CacheSizes sizes(costs, 1e6, 4, limits(8e9, 1e9));
  EXPECT_EQ(sizes.samples_after(0), sizes.samples_after(1));
  EXPECT_EQ(sizes.samples_after(0), 1000U) << "one process has time for 1000 samples";
  EXPECT_EQ(CacheSizes(costs, 1e6, 4, limits(8 * 400'000, 1e9)).samples_after(1), 100U);
}

}  // namespace
}  // namespace slipstream::test
