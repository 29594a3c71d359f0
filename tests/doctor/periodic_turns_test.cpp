#include "doctor/periodic_turns.h"

#include <gmock/gmock.h>

namespace slipstream::test {
namespace {

using testing::ElementsAre;

TEST(BlockRate, the_rate_of_several_turns_is_their_samples_over_their_seconds) {
  BlockRate rate;
  EXPECT_EQ(rate.rate().n, 0U);
  rate.add({{0, 0}});
  EXPECT_FALSE(rate.is_measured()) << "one point is no block";
  rate.add({{0, 0}, {1, 10}, {2, 20}});
  rate.add({{5, 3}, {8, 63}});
  EXPECT_DOUBLE_EQ(rate.rate().value, 80.0 / 5);
  EXPECT_EQ(rate.rate().n, 3U);
  EXPECT_LT(rate.rate().low, 10);
  EXPECT_GT(rate.rate().high, 20);
}

TEST(BlockRate, a_turn_has_at_most_16_blocks) {
  BlockRate rate;
  std::vector<BlockRate::Point> points;
  for (int i = 0; i <= 100; ++i) points.push_back({0.5 * i, 2.0 * i});
  rate.add(points);
  EXPECT_EQ(rate.rate().n, 16U);
  EXPECT_DOUBLE_EQ(rate.rate().low, 4);
  EXPECT_DOUBLE_EQ(rate.rate().high, 4);
}

TEST(PeriodicTurns, a_loader_is_counted_in_periods_of_all_workers) {
  LoaderTurns turns(2, 8);
  turns.begin({0.0, 0.0}, 100);
  std::vector<bool> needs_more;
  for (const double now_s : {103.0, 103.1, 104.0, 104.1}) needs_more.push_back(turns.add(now_s));
  EXPECT_THAT(needs_more, ElementsAre(true, true, true, false)) << "whatever the turn may take";
  turns.end();
  EXPECT_DOUBLE_EQ(turns.rate().value, 16 / 1.0) << "from the second batch to the fourth";
}

TEST(PeriodicTurns, a_loader_whose_turn_ends_amid_a_period_is_not_counted_with_the_rest_of_it) {
  LoaderTurns turns(2, 8);
  turns.begin({4.5, 9.0}, 0);
  std::vector<bool> needs_more;
  for (const double now_s : {1.0, 2.0, 3.0, 4.0, 100.0}) needs_more.push_back(turns.add(now_s));
  EXPECT_THAT(needs_more, ElementsAre(true, true, true, true, false));
  EXPECT_EQ(turns.counted(), 3U);
  turns.end();
  EXPECT_DOUBLE_EQ(turns.rate().value, 8);
}

TEST(PeriodicTurns, a_turn_begins_anew) {
  LoaderTurns turns(0, 1);
  for (const double start_s : {0.0, 50.0}) {
    turns.begin({2.0, 4.0}, start_s);
    EXPECT_EQ(turns.counted(), 0U);
    EXPECT_TRUE(turns.add(start_s + 1));
    EXPECT_FALSE(turns.add(start_s + 2));
    turns.end();
  }
  EXPECT_DOUBLE_EQ(turns.rate().value, 1);
  EXPECT_EQ(turns.rate().n, 2U);
}

TEST(PeriodicTurns, cached_batches_warm_up_for_two_steps_and_those_of_workers_for_a_period) {
  TrainingTurns cached(1), by_workers(3);
  EXPECT_EQ(cached.rate().n, 0U);
  cached.begin(0.0, 0);
  by_workers.begin(0.0, 0);
  std::size_t of_cached = 1, of_workers = 1;
  while (cached.add(0)) ++of_cached;
  while (by_workers.add(0)) ++of_workers;
  EXPECT_EQ(of_cached, 3U);
  EXPECT_EQ(of_workers, 6U);
  cached.end({9, 9, 0.5});
  by_workers.end({9, 9, 9, 0.1, 0.1, 0.4});
  EXPECT_DOUBLE_EQ(cached.rate().value, 2);
  EXPECT_DOUBLE_EQ(by_workers.rate().value, 5);
  EXPECT_EQ(by_workers.rate().n, 1U) << "one period";
}

TEST(PeriodicTurns, steps_are_told_apart_by_the_cached_batch_that_they_take) {
  TrainingTurns turns(1);
  turns.begin(0.0, 0);
  turns.end({9, 9, 1, 2, 3, 1, 2});
  EXPECT_THAT(turns.by_item(3), ElementsAre(ElementsAre(1, 1), ElementsAre(2, 2), ElementsAre(3)));
}

TEST(PeriodicTurns, batches_that_are_counted_are_short) {
  EXPECT_EQ(counted_batch_size(64, 0.01), 10U);
  EXPECT_EQ(counted_batch_size(4, 0.01), 4U);
  EXPECT_EQ(counted_batch_size(64, 7), 1U);
  EXPECT_EQ(counted_batch_size(64, 0), 64U);
}

}  // namespace
}  // namespace slipstream::test
