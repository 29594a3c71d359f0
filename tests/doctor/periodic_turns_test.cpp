#include "doctor/periodic_turns.h"

#include <gmock/gmock.h>

namespace slipstream::test {
namespace {

using testing::ElementsAre;

std::vector<bool> answers(PeriodicTurns& turns, const std::vector<double>& ends_s) {
  std::vector<bool> needs_more;
  for (const double now_s : ends_s) needs_more.push_back(turns.add(now_s));
  return needs_more;
}

TEST(PeriodicTurns, TurnEndsAfterAWholePeriod) {
  PeriodicTurns turns = PeriodicTurns::of_loader(2, 8);
  turns.begin({0.0, 0.0}, 100);
  EXPECT_THAT(answers(turns, {103, 103.5, 104, 104.5}), ElementsAre(true, true, true, false));
  EXPECT_EQ(turns.counted(), 2U);
  turns.end({3, 0.5, 0.5, 0.5});
  EXPECT_DOUBLE_EQ(turns.rate().value, 16);
  EXPECT_EQ(turns.rate().unit, "samples/s");
  EXPECT_EQ(turns.rate().n, 1U);
}

TEST(PeriodicTurns, IncompletePeriodIsNotCounted) {
  PeriodicTurns turns = PeriodicTurns::of_loader(2, 8);
  turns.begin({4.5, 9.0}, 0);
  EXPECT_THAT(answers(turns, {1, 2, 3, 4, 100}), ElementsAre(true, true, true, true, false));
  turns.end({1, 1, 1, 1, 96});
  EXPECT_DOUBLE_EQ(turns.rate().value, 8);
}

TEST(PeriodicTurns, RateCoversAllTurns) {
  PeriodicTurns turns = PeriodicTurns::of_loader(0, 4);
  EXPECT_EQ(turns.rate().n, 0U);
  for (const double batch_s : {0.5, 1.5}) {
    turns.begin({batch_s, 9.0}, 50);
    EXPECT_EQ(turns.counted(), 0U);
    EXPECT_THAT(answers(turns, {50 + 5, 50 + 5 + batch_s}), ElementsAre(true, false));
    turns.end({5, batch_s});
  }
  EXPECT_DOUBLE_EQ(turns.rate().value, 4);
  EXPECT_EQ(turns.rate().n, 2U);
}

TEST(PeriodicTurns, CachedBatchesWarmUpForTwoStepsOthersForAPeriod) {
  PeriodicTurns cached = PeriodicTurns::of_training(1), whole = PeriodicTurns::of_training(3);
  cached.begin(0.0, 0);
  whole.begin(0.0, 0);
  EXPECT_THAT(answers(cached, {0, 0, 0}), ElementsAre(true, true, false));
  EXPECT_THAT(answers(whole, {0, 0, 0, 0, 0, 0}), ElementsAre(true, true, true, true, true, false));
  cached.end({9, 9, 0.5});
  whole.end({9, 9, 9, 0.1, 0.1, 0.4});
  EXPECT_DOUBLE_EQ(cached.rate().value, 2);
  EXPECT_DOUBLE_EQ(whole.rate().value, 5);
  EXPECT_EQ(whole.rate().unit, "steps/s");
}

TEST(PeriodicTurns, StepsAreGroupedByCachedBatch) {
  PeriodicTurns turns = PeriodicTurns::of_training(1);
  turns.begin(0.0, 0);
  turns.end({9, 9, 1, 2, 3, 1, 2});
  EXPECT_THAT(turns.by_item(3), ElementsAre(ElementsAre(1, 1), ElementsAre(2, 2), ElementsAre(3)));
}

TEST(PeriodicTurns, SlowSamplesGetSmallerBatches) {
  EXPECT_EQ(counted_batch_size(64, 0.01), 10U);
  EXPECT_EQ(counted_batch_size(4, 0.01), 4U);
  EXPECT_EQ(counted_batch_size(64, 7), 1U);
  EXPECT_EQ(counted_batch_size(64, 0), 64U);
}

}  // namespace
}  // namespace slipstream::test
