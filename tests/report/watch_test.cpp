#include "report/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "loader/allocation_counter.h"
#include "report/watch_feed.h"

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<WatchState> states_of(const WatchFeed& feed) {
  std::vector<WatchState> states;
  for (const WatchWindow& window : feed.windows) states.push_back(window.state);
  return states;
}

TEST(Watch, ARunThatIsFedIsNotSpokenOf) {
  WatchFeed feed;
  feed.tell(500, {.seconds = 0.1, .waited_s = 0.004});
  EXPECT_THAT(feed.messages(), IsEmpty());
  ASSERT_GE(feed.windows.size(), 40U);
  EXPECT_EQ(feed.windows[0].state, WatchState::warming_up);
  EXPECT_EQ(feed.windows[1].state, WatchState::fed);
  EXPECT_EQ(feed.windows.back().state, WatchState::fed);
  EXPECT_NEAR(feed.windows.back().steps_per_second(), 10, 1e-6);
  EXPECT_NEAR(feed.windows.back().input_wait_share(), 0.04, 1e-6);
}

TEST(Watch, SaysWhenARunStartsToStarveWhyAndWhenItRecovers) {
  WatchFeed feed;
  feed.tell(105, kFed);
  feed.tell(60, with_decode(kStarved, {10, 9.8}));
  feed.tell(200, kFed);
  EXPECT_THAT(
      feed.messages(),
      ElementsAre(testing::MatchesRegex(
                      "step 11[678]: starving: waits for input 2[0-9] % of the time, 2.[0-9] "
                      "batches ready; 'decode' takes 65 % of the workers' time, 5.0 x as "
                      "long a sample as before; CPU time is 98 % of that"),
                  testing::MatchesRegex(
                      "step 21[56]: recovered: waits for input 0 % of the time, 4.0 batches "
                      "ready, after [19][0-9]+ steps \\(1[567] s\\)")));
  EXPECT_EQ(feed.watch.totals().starvations, 1U);
  EXPECT_GT(feed.watch.totals().starved_s, 10);
}

TEST(Watch, AHostThatWaitsWhileTheDeviceIsBusyIsNoStarving) {
  WatchFeed feed;
  feed.tell(300, {.waited_s = 0.05, .filled = 0, .busy_s = 0.099});
  EXPECT_THAT(feed.messages(), IsEmpty());
  EXPECT_NEAR(feed.windows.back().input_wait_share(), 0.01, 1e-6);
}

TEST(Watch, ADeviceThatIsIdleForOtherReasonsIsNotStarving) {
  WatchFeed feed;
  feed.tell(50, {.seconds = 0.2, .waited_s = 0.1, .filled = 0, .busy_s = 0.15});
  feed.tell(300, {.busy_s = 0.05});
  EXPECT_THAT(feed.messages(), ElementsAre(HasSubstr("starving"), HasSubstr("recovered")));
  EXPECT_EQ(feed.windows.back().input_wait_share(), 0);
}

TEST(Watch, OneLongWaitIsNoStarving) {
  for (const double seconds : {1.0, 8.0, 60.0}) {
    WatchFeed feed;
    feed.tell(100, kFed);
    feed.tell({.seconds = seconds, .waited_s = seconds, .filled = 0});
    feed.tell(100, kFed);
    EXPECT_THAT(feed.messages(), IsEmpty()) << seconds;
  }
}

TEST(Watch, OneLongWaitAmongSmallOnesIsNoStarving) {
  WatchFeed feed;
  feed.tell(200, {.waited_s = 0.006});
  feed.tell({.seconds = 10, .waited_s = 10, .filled = 0});
  feed.tell(200, {.waited_s = 0.006});
  feed.tell({.seconds = 30, .waited_s = 30, .filled = 0});
  feed.tell({.seconds = 0.18, .waited_s = 0.08});
  feed.tell(200, kFed);
  EXPECT_THAT(feed.messages(), IsEmpty());
}

TEST(Watch, StepsAtTheEndOfAPartAreCounted) {
  WatchFeed feed;
  const auto begin_part = [&](std::uint64_t steps) {
    feed.begin_anew(true);
    feed.progress.steps = 1000;
    feed.progress.part_ends = feed.progress.step + steps;
  };
  for (int part = 0; part < 4; ++part) {
    begin_part(30);
    feed.tell(30, {.seconds = 0.005});
  }
  begin_part(10);
  feed.tell(10, {.seconds = 0.005});
  feed.finish();
  EXPECT_EQ(feed.watch.totals().host[0].calls, 130 * WatchFeed::kSamples);
}

TEST(Watch, ALastWindowTooShortToTellHasNoRates) {
  WatchFeed feed;
  while (feed.windows.size() < 3) feed.tell(kFed);
  feed.tell(4, {.seconds = 1e-5});
  feed.finish();
  EXPECT_FALSE(feed.windows.back().workers_busy);
  EXPECT_TRUE(std::isnan(feed.windows.back().samples_per_second(feed.counters[0])));
}

TEST(Watch, TheFirstWindowOfARunIsNotJudged) {
  WatchFeed feed;
  feed.tell({.seconds = 3, .waited_s = 3, .filled = 0});
  feed.tell(4, {.seconds = 0.3, .waited_s = 0.3, .filled = 0});
  feed.tell(100, kFed);
  EXPECT_THAT(feed.messages(), IsEmpty());
}

TEST(Watch, WaitsThatComeAgainAndAgainAreToldOnce) {
  WatchFeed feed;
  for (int i = 0; i < 100; ++i) {
    feed.tell(20, kFed);
    feed.tell({.seconds = 1, .waited_s = 1, .filled = 0});
  }
  EXPECT_THAT(feed.messages(), ElementsAre(HasSubstr(": starving: ")));
}

TEST(Watch, SharesAroundTheLimitsAreToldOnce) {
  WatchFeed feed;
  for (int i = 0; i < 100; ++i) {
    feed.tell(10, {.waited_s = 0.016, .filled = 0});
    feed.tell(10, {.waited_s = 0.006, .filled = 1});
  }
  EXPECT_THAT(feed.messages(), ElementsAre(HasSubstr(": starving: ")));
}

TEST(Watch, StepsThatAreLongerThanAWindowAreWindows) {
  WatchFeed feed;
  feed.tell(4, {.seconds = 30, .waited_s = 20, .filled = 0});
  EXPECT_THAT(states_of(feed), ElementsAre(WatchState::warming_up, WatchState::fed,
                                           WatchState::starving, WatchState::starving));
}

TEST(Watch, WindowsHaveAFewSteps) {
  WatchFeed feed;
  feed.tell(20, {.seconds = 0.9});
  ASSERT_EQ(feed.windows.size(), 5U);
  EXPECT_EQ(feed.windows[3].steps, 4U);
  EXPECT_EQ(feed.windows[3].step, 16U);
}

TEST(Watch, ARunShorterThanAWindowIsOne) {
  WatchFeed feed;
  feed.tell(3, {.seconds = 0.01, .waited_s = 0.005});
  EXPECT_THAT(feed.windows, IsEmpty());
  feed.finish();
  feed.finish();
  ASSERT_EQ(feed.windows.size(), 1U);
  const WatchWindow& only = feed.windows[0];
  EXPECT_EQ(only.steps, 3U);
  EXPECT_NEAR(only.input_wait_share(), 0.5, 1e-6);
  EXPECT_EQ(only.host[0].calls, WatchFeed::kSamples);
  EXPECT_EQ(only.state, WatchState::warming_up);
}

TEST(Watch, TheLastStepBringsAllThatWasCounted) {
  WatchFeed feed;
  feed.progress.steps = 33;
  feed.tell(33, {.seconds = 0.01});
  feed.finish();
  EXPECT_EQ(feed.windows.at(0).host[3].calls, 33 * WatchFeed::kSamples);
}

TEST(Watch, StepsThatAreToldAtOnceHaveNoRate) {
  WatchFeed feed;
  feed.tell(10, kFed);
  feed.finish();
  feed.tell(5, {.seconds = 1e-5});
  feed.finish();
  EXPECT_EQ(feed.windows.back().steps, 5U);
  EXPECT_TRUE(std::isnan(feed.windows.back().steps_per_second()));
  EXPECT_TRUE(std::isnan(feed.windows.back().input_wait_share()));
}

TEST(Watch, PartsOfARunAreAddedUpWithoutNegativeNumbers) {
  WatchFeed feed({.workers = 2});
  for (int part = 0; part < 5; ++part) {
    feed.tell(7, {.seconds = 0.3, .waited_s = 0.1, .filled = 0, .busy_s = 0.25});
    feed.begin_anew(true);
  }
  feed.tell(40, {.seconds = 0.3});
  feed.finish();
  std::uint64_t steps = 0;
  for (const WatchWindow& window : feed.windows) {
    EXPECT_GT(window.steps, 0U);
    EXPECT_GE(window.seconds, 0);
    EXPECT_GE(window.waited_s, 0);
    EXPECT_LE(window.waited_s, window.seconds);
    for (const StepCounter& step : window.host) {
      EXPECT_LE(step.calls, window.steps * WatchFeed::kSamples);
      EXPECT_GE(step.wall_s, 0);
    }
    EXPECT_EQ(window.step, steps += window.steps);
  }
  const WatchTotals& totals = feed.watch.totals();
  EXPECT_EQ(totals.steps, 75U);
  EXPECT_NEAR(totals.seconds, feed.progress.elapsed_s, 1e-9);
  EXPECT_NEAR(totals.waited_s, 35 * 0.05, 1e-9);
  EXPECT_EQ(totals.host[0].calls, 75 * WatchFeed::kSamples);
  EXPECT_THAT(feed.messages(), IsEmpty());
}

TEST(Watch, ASecondRunBeginsAnewAndTotalsGoOn) {
  WatchFeed feed;
  feed.tell(50, kStarved);
  feed.begin_anew(false);
  feed.tell(80, kFed);
  feed.finish();
  EXPECT_EQ(feed.watch.totals().steps, 130U);
  EXPECT_EQ(feed.windows.back().step, 80U);
  EXPECT_NEAR(feed.windows.back().elapsed_s, 8, 1e-9);
  EXPECT_THAT(feed.messages(),
              ElementsAre(HasSubstr("starving"), testing::MatchesRegex("step [0-9]+: recovered: "
                                                                       ".*after [0-9]{2} steps "
                                                                       ".*")));
  WatchFeed short_ones;
  for (int run = 0; run < 3; ++run) {
    short_ones.tell(kFed);
    short_ones.begin_anew(false);
  }
  EXPECT_EQ(short_ones.windows.size(), 2U);
}

TEST(Watch, RunsAreNotJudgedByEachOther) {
  WatchFeed waits;
  for (int run = 0; run < 3; ++run) {
    waits.tell(22, kFed);
    waits.tell({.seconds = 5, .waited_s = 5, .filled = 0});
    waits.tell(10, kFed);
    waits.finish();
    waits.begin_anew(false);
  }
  EXPECT_THAT(waits.messages(), IsEmpty());

  WatchFeed costs;
  costs.tell(60, kFed);
  costs.begin_anew(true);
  costs.tell(60, with_decode(kStarved, {10, 10}));
  ASSERT_EQ(costs.messages().size(), 1U);
  EXPECT_THAT(costs.messages()[0], Not(HasSubstr("as before")));
}

TEST(Watch, APartThatBeginsWithALongStepLosesNoWindow) {
  WatchFeed feed;
  feed.tell(2, kFed);
  feed.begin_anew(true);
  feed.tell({.seconds = 30});
  feed.tell(kFed);
  feed.finish();
  ASSERT_EQ(feed.windows.size(), 2U);
  EXPECT_EQ(feed.windows[0].steps, 2U);
  EXPECT_EQ(feed.windows[1].steps, 2U);
}

TEST(Watch, WithoutALoaderThereIsNothingToSay) {
  WatchFeed feed;
  feed.has_loader = false;
  feed.tell(50, {.seconds = 0.2});
  feed.finish();
  EXPECT_THAT(states_of(feed), testing::Each(WatchState::no_loader));
  EXPECT_FALSE(feed.windows.back().batches_ready);
  EXPECT_THAT(feed.windows.back().host, IsEmpty());
}

TEST(Watch, NamesCannotCommandATerminal) {
  WatchFeed feed;
  feed.counters[1].name = "de\x1b[2Jcode";
  feed.counters[2].name = "bl\xffur";
  feed.tell(30, kStarved);
  ASSERT_EQ(feed.messages().size(), 1U);
  EXPECT_THAT(feed.messages()[0], HasSubstr("'bl\\xffur'"));
}

TEST(Watch, CountersAreAskedForAFewTimesASecond) {
  WatchFeed feed;
  feed.tell(20'000, {.seconds = 1e-3});
  EXPECT_LE(feed.times_counted, 20U * 5 + 1);
  EXPECT_GE(feed.times_counted, 20U * 4);
}

TEST(Watch, MemoryDoesNotGrowWithTheSteps) {
  WatchFeed feed;
  feed.keeps_windows = false;
  const auto train = [&] {
    for (int i = 0; i < 50; ++i) {
      feed.tell(100, kFed);
      feed.tell(100, kStarved);
    }
  };
  train();
  const std::size_t before = allocated_bytes();
  for (int i = 0; i < 10; ++i) train();
  EXPECT_LE(allocated_bytes(), before + 4096);
}

}  // namespace
}  // namespace slipstream
