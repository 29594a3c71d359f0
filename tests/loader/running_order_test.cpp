#include "loader/running_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Occurrence = std::pair<std::uint64_t, std::uint16_t>;

struct Case {
  std::uint64_t samples;
  std::size_t batch_size;  ///< batch size of one rank
  std::size_t ranks;
};

constexpr Case kCases[] = {{24, 2, 3},  {23, 2, 3}, {25, 2, 3}, {7, 1, 7},  {100, 7, 1},
                           {101, 3, 4}, {64, 4, 4}, {1, 1, 1},  {11, 3, 2}, {65, 16, 4}};

Sampling make_sampling(std::uint64_t samples, int kind) {
  if (kind == 0) return {};
  std::vector<std::int64_t> labels;
  std::vector<double> weights;
  for (std::uint64_t i = 0; i < samples; ++i) {
    labels.push_back(i % 5 == 0 ? 1 : 3);
    weights.push_back(i % 5 == 0 ? 4 : 0.5);
  }
  return kind == 1 ? Sampling::balanced(labels) : Sampling::weighted(weights);
}

DataLoaderOptions order_options(const Case& c, std::size_t rank, bool drop_last, int kind = 0) {
  return {{.batch_size = c.batch_size,
           .sampler = make_sampling(c.samples, kind),
           .rank = {rank, c.ranks},
           .drop_last = drop_last},
          {}};
}

std::vector<RunningOrder> make_orders(const Case& c, bool drop_last, int kind = 0) {
  std::vector<RunningOrder> orders;
  for (std::size_t rank = 0; rank < c.ranks; ++rank)
    orders.emplace_back(c.samples, order_options(c, rank, drop_last, kind));
  return orders;
}

std::vector<Occurrence> list_batch(const RunningOrder& order, std::uint64_t batch,
                                   std::size_t size) {
  std::vector<Occurrence> taken;
  for (std::size_t i = 0; i < size; ++i) {
    const SamplePosition place = order.at(batch, i);
    taken.emplace_back(place.sample, place.occurrence);
  }
  return taken;
}

TEST(RunningOrder, OneRankFollowsTheSamplerAndWrapsAround) {
  const RunningOrder order(23, {{.batch_size = 4, .seed = 9}, {}});
  const Sampler sampler(23, true, 9);
  ASSERT_EQ(order.batches_per_epoch(), 5u);
  ASSERT_EQ(order.places(0), 23u);
  for (std::uint64_t batch = 0; batch < 15; ++batch)
    for (std::size_t i = 0; i < 4; ++i)
      for (std::uint16_t distance = 0; distance < 23; ++distance) {
        const SamplePosition place = order.at(batch, i, distance);
        EXPECT_EQ(place.epoch, batch / 5);
        EXPECT_EQ(place.sample, sampler.at(place.epoch, (batch % 5 * 4 + i + distance) % 23));
        EXPECT_EQ(place.occurrence, distance);
      }
}

TEST(RunningOrder, RanksShareTheLastStepOfOneRank) {
  for (const Case& c : kCases)
    for (const int kind : {0, 1, 2}) {
      const Case whole = {c.samples, c.batch_size * c.ranks, 1};
      const RunningOrder one = make_orders(whole, false, kind)[0];
      for (std::uint64_t batch = 0; batch < 2 * one.batches_per_epoch(); ++batch) {
        const std::vector<Occurrence> all = list_batch(one, batch, whole.batch_size);
        for (std::size_t rank = 0; rank < c.ranks; ++rank) {
          DataLoaderOptions options = order_options(c, rank, false, kind);
          options.shares_last_step = true;
          const RunningOrder order(c.samples, options);
          ASSERT_EQ(order.batches_per_epoch(), one.batches_per_epoch());
          const bool is_last = (batch + 1) % one.batches_per_epoch() == 0;
          const std::size_t share = is_last ? last_share(c.samples, options) : c.batch_size;
          const std::vector<Occurrence> part = list_batch(order, batch, share);
          EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + rank * share))
              << c.samples << " samples, batch " << batch << ", rank " << rank;
          for (std::size_t i = share; i < c.batch_size; ++i)
            EXPECT_LT(order.at(batch, i).sample, c.samples);
        }
      }
    }
}

TEST(RunningOrder, LastShareDividesTheRemainderAndRoundsUp) {
  const auto share = [](std::uint64_t samples, std::size_t batch, std::size_t ranks) {
    return last_share(samples, {{.batch_size = batch, .rank = {0, ranks}}, {}});
  };
  EXPECT_EQ(share(33, 8, 4), 1u);
  EXPECT_EQ(share(37, 8, 4), 2u);
  EXPECT_EQ(share(64, 8, 4), 8u);
  EXPECT_EQ(share(63, 8, 4), 8u);
  EXPECT_EQ(share(50, 8, 1), 2u);
}

TEST(RunningOrder, AllRanksTogetherTakeTheStepsOfOneRank) {
  for (const Case& c : kCases)
    for (const bool drop_last : {true, false})
      for (const int kind : {0, 1, 2}) {
        const Case whole = {c.samples, c.batch_size * c.ranks, 1};
        const RunningOrder one = make_orders(whole, drop_last, kind)[0];
        const auto ranks = make_orders(c, drop_last, kind);
        for (std::uint64_t batch = 0; batch < 3 * one.batches_per_epoch(); ++batch) {
          std::vector<Occurrence> together;
          for (const RunningOrder& rank : ranks) {
            ASSERT_EQ(rank.batches_per_epoch(), one.batches_per_epoch());
            const auto part = list_batch(rank, batch, c.batch_size);
            together.insert(together.end(), part.begin(), part.end());
          }
          EXPECT_EQ(together, list_batch(one, batch, whole.batch_size))
              << c.samples << " samples, batch " << batch << ", sampling " << kind;
        }
      }
}

/// Returns all samples of the ranks in an epoch.
std::vector<Occurrence> epoch_at(const Case& c, bool drop_last, std::uint64_t epoch) {
  std::vector<Occurrence> all;
  for (const RunningOrder& order : make_orders(c, drop_last)) {
    for (std::uint64_t batch = 0; batch < order.batches_per_epoch(); ++batch) {
      const auto part = list_batch(order, epoch * order.batches_per_epoch() + batch, c.batch_size);
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  return all;
}

TEST(RunningOrder, DropLastOmitsTheRemainderAndRepeatsNothing) {
  for (const Case& c : kCases) {
    const auto all = epoch_at(c, true, 4);
    const std::uint64_t step = c.batch_size * c.ranks;
    EXPECT_EQ(all.size(), c.samples / step * step);
    std::set<std::uint64_t> samples;
    for (const auto& [sample, occurrence] : all) {
      samples.insert(sample);
      EXPECT_EQ(occurrence, 0);
    }
    EXPECT_EQ(samples.size(), all.size());
  }
}

TEST(RunningOrder, PaddingTakesEverySampleAndRepeatsTheFirstOnes) {
  for (const Case& c : kCases) {
    const auto all = epoch_at(c, false, 4);
    const std::uint64_t step = c.batch_size * c.ranks;
    EXPECT_EQ(all.size(), (c.samples + step - 1) / step * step);
    std::set<Occurrence> expected;
    const Sampler sampler(c.samples, true, 1);
    for (std::uint64_t i = 0; i < all.size(); ++i)
      expected.emplace(sampler.at(4, i % c.samples), i / c.samples);
    EXPECT_EQ(std::set(all.begin(), all.end()), expected) << c.samples << " samples";
  }
}

TEST(RunningOrder, EveryPositionAndDistanceHasAUniqueOccurrence) {
  for (const Case& c : kCases)
    for (const bool drop_last : {true, false})
      for (const int kind : {0, 1, 2}) {
        std::set<std::tuple<std::uint64_t, std::uint16_t>> seen;
        std::size_t count = 0;
        for (const RunningOrder& order : make_orders(c, drop_last, kind))
          for (std::uint64_t batch = 0; batch < order.batches_per_epoch(); ++batch)
            for (std::size_t i = 0; i < c.batch_size; ++i)
              for (std::uint16_t distance = 0; distance < order.places(0); ++distance, ++count) {
                const SamplePosition place = order.at(batch, i, distance);
                seen.emplace(place.sample, place.occurrence);
              }
        EXPECT_EQ(seen.size(), count) << c.samples << " samples, sampling " << kind;
      }
}

TEST(RunningOrder, ReplacementsAreSamplesOfTheSameRank) {
  for (const Case& c : kCases)
    for (const bool drop_last : {true, false}) {
      std::set<Occurrence> of_all;
      std::uint64_t places = 0;
      for (const RunningOrder& order : make_orders(c, drop_last)) {
        std::set<std::uint64_t> samples;
        for (std::uint16_t distance = 0; distance < order.places(0); ++distance)
          samples.insert(order.at(0, 0, distance).sample);
        places += order.places(0);
        for (const std::uint64_t sample : samples) of_all.emplace(sample, 0);
        if (drop_last) {
          EXPECT_EQ(samples.size(), order.places(0));
        }
      }
      EXPECT_EQ(of_all.size(), c.samples);
      if (drop_last) {
        EXPECT_EQ(places, c.samples);
      }
    }
}

std::vector<std::string> find_problems(std::uint64_t samples, const DataLoaderOptions& options) {
  std::vector<std::string> problems;
  check_order(samples, options, problems);
  return problems;
}

TEST(RunningOrder, ProblemsAreReportedWithAdvice) {
  EXPECT_THAT(find_problems(12, {{.batch_size = 4, .rank = {2, 3}}, {}}), IsEmpty());
  EXPECT_THAT(find_problems(12, {{.batch_size = 1, .rank = {0, 0}}, {}}),
              ElementsAre("0 ranks: give at least 1"));
  EXPECT_THAT(find_problems(12, {{.batch_size = 1, .rank = {3, 3}}, {}}),
              ElementsAre("rank 3 of 3: ranks are counted from 0"));
  const std::string too_few =
      "3 ranks with batch size 4 need more than the 11 samples of the data set for one step: give "
      "smaller batches or fewer ranks";
  EXPECT_THAT(find_problems(11, {{.batch_size = 4, .rank = {2, 3}}, {}}), ElementsAre(too_few));
  EXPECT_THAT(find_problems(11, {{.batch_size = 4, .rank = {2, 3}, .drop_last = false}, {}}),
              ElementsAre(too_few));
  constexpr std::size_t kMost = ~std::size_t{0};
  EXPECT_EQ(find_problems(12, {{.batch_size = 4, .rank = {0, kMost}}, {}}).size(), 1u);
  EXPECT_THAT(
      find_problems(3,
                    {{.batch_size = 1, .sampler = Sampling::weighted({1, 2}), .rank = {5, 4}}, {}}),
      ElementsAre(testing::HasSubstr("rank 5 of 4"), testing::HasSubstr("4 ranks"),
                  testing::HasSubstr("of 2 samples, but the data set has 3: give one")));
}

}  // namespace
}  // namespace slipstream
