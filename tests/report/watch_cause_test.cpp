#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/watch_feed.h"

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Step = WatchFeed::Step;

TEST(WatchCause, TheCostliestStepsAreNamedWhereTheRunWasNeverFed) {
  struct Case {
    std::size_t step;
    Culprit group;
    std::string words;
  };
  for (const Case& tested :
       {Case{0, Culprit::raw_reading, "'read' takes 91 % of the workers' time;"},
        Case{1, Culprit::decode, "'decode' takes 90 % of the workers' time;"},
        Case{2, Culprit::transforms,
             "transforms, most of all 'blur', take 93 % of the workers' time;"}}) {
    WatchFeed feed;
    Step step = kStarved;
    step.costs_ms = {{1, 1}, {2, 2}, {4, 4}, {0.5, 0.5}};
    step.costs_ms[tested.step] = {tested.step == 0 ? 65 : tested.step == 1 ? 50 : 40, 20};
    feed.tell(100, step);
    ASSERT_THAT(feed.messages(), ElementsAre(HasSubstr(tested.words)));
    EXPECT_THAT(feed.messages()[0], Not(HasSubstr("as before")));
    EXPECT_EQ(feed.windows.back().cause->group, tested.group);
  }
}

TEST(WatchCause, WhatGrewIsNamedWhereOthersStillCostMore) {
  WatchFeed feed;
  feed.tell(100, kFed);
  feed.tell(30, with_decode(kStarved, {3.8, 0.1}));
  EXPECT_THAT(feed.messages(),
              ElementsAre(HasSubstr("'decode' takes 41 % of the workers' time, 1.9 x as long a "
                                    "sample as before; CPU time is 3 % of that: it waits, for "
                                    "storage, a lock or a core")));
}

TEST(WatchCause, StepsAreHeldAgainstWhatTheyTookLately) {
  WatchFeed feed;
  feed.tell(100, kFed);
  feed.tell(400, with_decode(kFed, {8, 8}));
  feed.tell(30, with_decode(kStarved, {16, 16}));
  EXPECT_THAT(feed.messages(), ElementsAre(HasSubstr("'decode' takes 74 % of the workers' time, "
                                                     "2.0 x as long")));
}

TEST(WatchCause, WhatIsCountedBetweenWaitsIsNotWhatItTookBefore) {
  WatchFeed feed;
  feed.tell(100, kFed);
  const Step between = with_decode(kFed, {20, 20});
  for (int i = 0; i < 20; ++i) {
    feed.tell(20, between);
    Step step = between;
    step.seconds = step.waited_s = 1;
    feed.tell(step);
  }
  EXPECT_GT(*feed.windows.back().cause->growth, 1.5);
}

TEST(WatchCause, WhereNoStepGrewTheCostliestIsNamed) {
  WatchFeed feed;
  feed.tell(100, kFed);
  feed.tell(30, kStarved);
  EXPECT_THAT(feed.messages(),
              ElementsAre(HasSubstr("'blur', take 60 % of the workers' time, 1.0 x as long")));
}

TEST(WatchCause, ReadersAreHeldAgainstTheirOwnTime) {
  WatchFeed few({.workers = 2, .readers = 16});
  Step step = {.seconds = 0.2, .waited_s = 0.1, .filled = 0};
  step.costs_ms[0] = {40, 1};
  step.costs_ms[1] = {20, 20};
  few.tell(100, step);
  EXPECT_THAT(few.messages(), ElementsAre(HasSubstr("'decode' takes 82 % of the workers' time")));
  EXPECT_NEAR(*few.windows.back().workers_busy, 8 * 24.5e-3 / 0.4, 1e-6);

  WatchFeed together({.workers = 2, .readers = 16});
  step.costs_ms = {{160, 1}, {14, 14}, {10, 10}, {0, 0}};
  together.tell(100, step);
  EXPECT_THAT(together.messages(), ElementsAre(HasSubstr("'decode' takes 58 %")));

  WatchFeed many({.workers = 2, .readers = 16});
  step.costs_ms = {{392, 1}, {2, 2}, {4, 4}, {0.5, 0.5}};
  many.tell(100, step);
  EXPECT_THAT(many.messages(),
              ElementsAre(HasSubstr("'read' keeps 16 readers busy 98 % of the time; CPU time is 0 "
                                    "% of that: it waits")));
}

TEST(WatchCause, WhereNoSampleWasFinishedNothingIsBlamed) {
  WatchFeed feed;
  feed.counters.clear();
  feed.tell(30, kStarved);
  EXPECT_THAT(feed.messages(),
              ElementsAre(HasSubstr("0.0 batches ready; no sample went through a host step")));
}

}  // namespace
}  // namespace slipstream
