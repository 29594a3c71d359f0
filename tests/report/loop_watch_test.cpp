#include "report/loop_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Feeds a LoopWatch with calls of next() at given times.
struct WatchedLoop {
  explicit WatchedLoop(double every_s = 1e9) : watch("watch", every_s) { watch.begin_epoch(0, 0); }

  /// Trains `steps` steps that take 0.125 s, of which next() takes wait.ended_s.
  void train(int steps, LoopWait wait) {
    const double waited_s = wait.ended_s;
    for (int i = 0; i < steps; ++i) {
      now_s += 0.125;
      wait.began_s = now_s - waited_s;
      wait.ended_s = now_s;
      watch.add(wait);
      for (std::string& line : watch.take_lines()) lines.push_back(std::move(line));
    }
  }
  void end_epoch() {
    watch.end_epoch();
    for (std::string& line : watch.take_lines()) lines.push_back(std::move(line));
  }
  std::map<std::string, double> parts() {
    std::map<std::string, double> shares;
    for (const WaitPart& part : wait_parts(watch.totals())) shares[part.name] = part.share;
    return shares;
  }

  LoopWatch watch;
  double now_s = 0;
  std::vector<std::string> lines;
};

constexpr double kTolerance = 1e-9;

/// Compares parts without the first batch of an epoch, which every loop waits for.
void expect_parts(WatchedLoop& loop, const std::map<std::string, double>& shares_of_the_rest) {
  std::map<std::string, double> parts = loop.parts();
  const double seconds = loop.watch.totals().seconds;
  const double rest = (seconds - 0.125) / seconds;
  parts.erase("first_batch");
  ASSERT_EQ(parts.size(), shares_of_the_rest.size()) << describe_waits(loop.watch.totals());
  for (const auto& [name, share] : shares_of_the_rest)
    EXPECT_NEAR(parts[name], share * rest, kTolerance) << name;
}

TEST(LoopWatch, WaitInTheLoopsThreadIsDividedByItsCpuTime) {
  WatchedLoop loop;
  loop.train(9, {.ended_s = 0.1, .cpu_s = 0.075});
  expect_parts(loop, {{"loading_cpu", 0.6}, {"loading_blocked", 0.2}});
}

TEST(LoopWatch, WaitForWorkersIsDividedByTheirTimes) {
  WatchedLoop loop;
  loop.watch.set_source(true, {});
  loop.train(5, {.ended_s = 0.1});
  loop.train(1, {.ended_s = 0.1, .workers = WorkerTimes{0.2, 0.05, 0.1}});
  expect_parts(loop, {{"worker_cpu", 0.2}, {"worker_core", 0.4}, {"worker_blocked", 0.2}});
}

TEST(LoopWatch, WaitForWorkersThatWereNotReadHasNoCause) {
  WatchedLoop loop;
  loop.watch.set_source(true, {});
  loop.train(9, {.ended_s = 0.1, .cpu_s = 0.025});
  expect_parts(loop, {{"workers", 0.6}, {"receiving", 0.2}});
}

TEST(LoopWatch, WaitForALateBatchIsItsOwnPart) {
  WatchedLoop loop;
  loop.watch.set_source(true, {});
  loop.train(1, {.ended_s = 0.1});
  loop.train(4, {.ended_s = 0.1, .is_late = true, .workers = WorkerTimes{0.1, 0.1, 0}});
  expect_parts(loop, {{"late_batch", 0.8}});
}

TEST(LoopWatch, ReadyBatchIsOnlyReceived) {
  WatchedLoop loop;
  loop.watch.set_source(true, {});
  loop.train(1, {.ended_s = 0.1});
  loop.train(4, {.ended_s = 0.1, .was_ready = true, .workers = WorkerTimes{0.1, 0.1, 0}});
  expect_parts(loop, {{"receiving", 0.8}});
}

TEST(LoopWatch, WaitOfAPipelineOutsideItsLoaderIsForStages) {
  WatchedLoop loop;
  loop.train(5, {.ended_s = 0.1, .cpu_s = 0.1, .loader_s = 0.05, .loader_cpu_s = 0.05});
  expect_parts(loop, {{"stages", 0.4}, {"loading_cpu", 0.4}});
}

TEST(LoopWatch, WaitForANativeLoaderIsDividedByItsHostStepsSinceTheFirstBatch) {
  std::vector<StepCounter> counters = {{"read", 8, 100, 1}, {"decode", 8, 100, 1}};
  WatchedLoop loop;
  loop.train(1, {.ended_s = 0.1});
  loop.watch.set_source(false, [&] { return counters; });
  loop.train(4, {.ended_s = 0.1});
  counters[0].add({"", 8, 1, 1});
  counters[1].add({"", 8, 3, 3});
  expect_parts(loop, {{"read", 0.2}, {"decode", 0.6}});
}

TEST(LoopWatch, CountersOfALoaderThatWasStartedAgainCountFromZero) {
  std::vector<StepCounter> counters = {{"read", 8, 1, 1}, {"decode", 8, 0, 0}};
  WatchedLoop loop;
  loop.watch.set_source(false, [&] { return counters; });
  loop.train(2, {.ended_s = 0.1});
  counters = {{"read", 4, 1, 1}, {"decode", 4, 1, 1}};
  expect_parts(loop, {{"read", 0.4}, {"decode", 0.4}});
}

TEST(LoopWatch, CreatingTheIteratorCountsAsWaitingForTheFirstBatch) {
  LoopWatch watch("watch", 1e9);
  watch.begin_epoch(10, 3);
  watch.add({.began_s = 10, .ended_s = 11});
  watch.add({.began_s = 14, .ended_s = 14});
  EXPECT_NEAR(watch.totals().seconds, 7, kTolerance);
  EXPECT_NEAR(watch.totals().first_s, 4, kTolerance);
  EXPECT_NEAR(watch.totals().input_wait_share(), 4.0 / 7, kTolerance);
}

TEST(LoopWatch, TimeBetweenEpochsDoesNotCount) {
  LoopWatch watch("watch", 1e9);
  for (const double begin_s : {0.0, 1000.0}) {
    watch.begin_epoch(begin_s, 0);
    watch.add({.began_s = begin_s, .ended_s = begin_s + 1});
    watch.add({.began_s = begin_s + 2, .ended_s = begin_s + 2, .gave_batch = false});
    watch.end_epoch();
  }
  EXPECT_EQ(watch.totals().steps, 2U);
  EXPECT_NEAR(watch.totals().seconds, 4, kTolerance);
  EXPECT_NEAR(watch.totals().input_wait_share(), 0.5, kTolerance);
}

TEST(LoopWatch, DeviceThatStillHasWorkDoesNotWait) {
  WatchedLoop loop;
  loop.train(100, {.ended_s = 0.1, .idle_s = 0});
  EXPECT_NEAR(loop.watch.totals().input_wait_share(), 0, kTolerance);
  EXPECT_THAT(loop.parts(), IsEmpty());
  EXPECT_THAT(loop.lines, IsEmpty());
}

TEST(LoopWatch, IdleTimeLimitsTheWaitAndScalesItsParts) {
  WatchedLoop loop;
  loop.train(8, {.ended_s = 0.1, .cpu_s = 0.1, .idle_s = 0.05});
  EXPECT_NEAR(loop.watch.totals().input_wait_share(), 0.4, kTolerance);
  const std::map<std::string, double> parts = loop.parts();
  double all = 0;
  for (const auto& [name, share] : parts) all += share;
  EXPECT_NEAR(all, 0.4, kTolerance);
}

TEST(LoopWatch, StarvationAndRecoveryAreReportedOnceWithTheLargestPart) {
  WatchedLoop loop;
  loop.train(40, {.ended_s = 0.05});
  loop.train(80, {});
  ASSERT_EQ(loop.lines.size(), 2U);
  EXPECT_THAT(loop.lines[0],
              testing::StartsWith("watch: step 24: starving: the device waits for input 40 % of "
                                  "the time, "));
  EXPECT_THAT(loop.lines[0],
              testing::EndsWith(" % of it for a loader that waits for storage, network, locks or "
                                "other processes; call slipstream.doctor(loader, step) to find the "
                                "cause"));
  EXPECT_THAT(loop.lines[1], HasSubstr(": recovered: the device waits for input "));
  EXPECT_THAT(loop.lines[0], Not(HasSubstr("batches ready")));
}

TEST(LoopWatch, EveryIntervalAndEveryEpochHasALineAndTotals) {
  WatchedLoop loop(1.0);
  loop.train(8, {.ended_s = 0});
  EXPECT_THAT(loop.lines, ElementsAre(HasSubstr("watch: step 8: the device waits for input ")));
  const auto interval = loop.watch.take_totals();
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->steps, 8U);
  loop.train(4, {.ended_s = 0});
  EXPECT_FALSE(loop.watch.take_totals());
  loop.end_epoch();
  EXPECT_THAT(loop.lines.back(), HasSubstr("watch: epoch 1: 12 steps in 1.5 s: the device waits"));
  EXPECT_EQ(loop.watch.take_totals()->steps, 4U);
}

TEST(LoopWatch, ReportListsPartsAndReadyBatches) {
  WatchedLoop loop;
  EXPECT_EQ(loop_report("train", loop.watch.totals()), "train: no batch yet\n");
  loop.watch.set_source(true, {});
  loop.train(1, {.ended_s = 0.025});
  loop.train(7, {.ended_s = 0.025, .ready = 3});
  EXPECT_EQ(loop_report("train", loop.watch.totals()),
            "train: 8 steps in 1.0 s, 8 steps/s; the device waits for input 30 % of the time\n"
            "share of time  name         waits for\n"
            "         18 %  workers      the workers\n"
            "         12 %  first_batch  the first batch of an epoch\n"
            "batches ready when a step requests one: 3.0\n");
}

}  // namespace
}  // namespace slipstream
