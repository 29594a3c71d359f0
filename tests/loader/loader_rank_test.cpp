#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "loader/loader_fixture.h"
#include "loader/sampler.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kRankSamples = 47;
constexpr std::size_t kRankBatch = 3;
constexpr std::size_t kRanks = 4;
constexpr std::size_t kRankBatches = 11;  // more than two epochs of 3 or 4 batches

const Sampling kBalanced = Sampling::balanced([] {
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < kRankSamples; ++i) labels.push_back(i % 6 == 1);
  return labels;
}());

const Sampling kWeighted = Sampling::weighted([] {
  std::vector<double> weights;
  for (std::size_t i = 0; i < kRankSamples; ++i) weights.push_back(i % 6 == 1 ? 5 : 1);
  return weights;
}());

DataLoaderOptions make_options(std::size_t rank, const Sampling& sampling = {},
                               bool drop_last = true) {
  return {{.batch_size = kRankBatch,
           .sampler = sampling,
           .rank = {rank, kRanks},
           .drop_last = drop_last},
          {.num_workers = 1 + static_cast<unsigned>(rank)}};
}

DataLoaderOptions one_rank(const Sampling& sampling = {}, bool drop_last = true) {
  return {{.batch_size = kRankBatch * kRanks, .sampler = sampling, .drop_last = drop_last},
          {.num_workers = 3}};
}

/// Returns the fields of every sample, step by step.
std::vector<Bytes> rank_samples(const std::shared_ptr<const Dataset>& dataset,
                                const DataLoaderOptions& options,
                                std::size_t batches = kRankBatches) {
  DataLoader loader(dataset, two_transforms(), options);
  std::vector<Bytes> samples;
  for (const Bytes& slab : take(loader, batches))
    for (std::size_t i = 0; i < options.batch_size; ++i) {
      Bytes& sample = samples.emplace_back();
      for (const SlabField& field : loader.layout().fields) {
        const auto* first = slab.data() + field.offset_bytes + i * field.sample_bytes;
        sample.insert(sample.end(), first, first + field.sample_bytes);
      }
    }
  return samples;
}

std::shared_ptr<TestSet> test_set() { return std::make_shared<TestSet>(kRankSamples); }

TEST(LoaderRank, AllRanksTogetherLoadTheBatchesOfOneRank) {
  for (const bool drop_last : {true, false})
    for (const Sampling& sampling : {Sampling(), kBalanced, kWeighted}) {
      const auto expected = rank_samples(test_set(), one_rank(sampling, drop_last));
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        const auto part = rank_samples(test_set(), make_options(rank, sampling, drop_last));
        for (std::size_t i = 0; i < part.size(); ++i) {
          const std::size_t batch = i / kRankBatch;
          ASSERT_EQ(part[i], expected[(batch * kRanks + rank) * kRankBatch + i % kRankBatch])
              << "rank " << rank << ", batch " << batch;
        }
      }
    }
}

TEST(LoaderRank, BatchesPerEpochCountsTheGlobalBatch) {
  const DataLoader dropping(test_set(), no_transforms(), make_options(1));
  EXPECT_EQ(dropping.batches_per_epoch(), 3u);
  const DataLoader padding(test_set(), no_transforms(), make_options(3, {}, false));
  EXPECT_EQ(padding.batches_per_epoch(), 4u);
}

TEST(LoaderRank, FirstBatchGivesSameBytesAsIteratingToIt) {
  for (const bool drop_last : {true, false})
    for (const Sampling& sampling : {Sampling(), kBalanced, kWeighted}) {
      DataLoaderOptions options = make_options(2, sampling, drop_last);
      const auto walked = rank_samples(test_set(), options);
      for (std::size_t first = 1; first < kRankBatches; ++first) {
        options.first_batch = first;
        options.num_workers = first % 2 == 0 ? 1 : 3;
        const auto resumed = rank_samples(test_set(), options, kRankBatches - first);
        EXPECT_TRUE(std::equal(resumed.begin(), resumed.end(),
                               walked.begin() + static_cast<std::ptrdiff_t>(first * kRankBatch)))
            << "from batch " << first;
      }
    }
}

TEST(LoaderRank, LargeFirstBatchReadsNoEarlierSamples) {
  const auto dataset = test_set();
  DataLoaderOptions options = make_options(1, kBalanced);
  options.first_batch = 3'000'000'000;
  DataLoader loader(dataset, no_transforms(), options);
  const HostBatch batch = loader.next();
  EXPECT_EQ(batch.number, 3'000'000'000u);
  EXPECT_EQ(batch.epoch, 1'000'000'000u);
  EXPECT_LE(dataset->reads.count(), (options.prefetch_batches + options.held_batches) * kRankBatch);
  options.first_batch = 3 * (std::uint64_t{1} << 32);
  EXPECT_THAT(refusal(dataset, no_transforms(), options), HasSubstr("after the last epoch"));
}

TEST(LoaderRank, RepeatedSamplesGetNewRandomDraws) {
  for (const auto& [samples, drop_last, sampling] :
       {std::tuple{3U, false, Sampling()}, std::tuple{4U, true, Sampling::balanced({0, 1, 1, 1})},
        std::tuple{4U, true, Sampling::weighted({1, 0, 0, 0})}}) {
    const DataLoaderOptions options = {
        {.batch_size = 2, .sampler = sampling, .drop_last = drop_last}, {}};
    const auto taken = rank_samples(std::make_shared<TestSet>(samples), options, 2);
    for (std::size_t i = 0; i < taken.size(); ++i)
      EXPECT_EQ(std::count(taken.begin(), taken.end(), taken[i]), 1) << samples << " samples";
  }
}

TEST(LoaderRank, BadSamplesAreReplacedBySamplesOfTheSameRank) {
  const std::set<std::size_t> bad = {0, 3, 4, 5, 9, 17, 18, 30, 31, 32, 44, 46};
  const auto damaged = test_set();
  damaged->on_read = [&](std::size_t index) {
    if (bad.contains(index)) throw Error("gone");
  };
  const Sampler order(kRankSamples, true, 1);
  const auto at = [&](std::size_t rank, std::size_t place) {
    return order.at(
        0, place / kRankBatch * kRanks * kRankBatch + rank * kRankBatch + place % kRankBatch);
  };
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    DataLoaderOptions options = make_options(rank);
    const auto expected = rank_samples(test_set(), options, 3);
    options.on_bad_sample = OnBadSample::skip;
    const auto taken = rank_samples(damaged, options, 3);
    // After the three batches, 3 of the 47 samples are left for each of ranks 0 to 2, and 2 for the
    // last rank.
    const std::size_t places = rank < 3 ? 12 : 11;
    for (std::size_t place = 0; place < 9; ++place) {
      if (!bad.contains(at(rank, place))) {
        EXPECT_EQ(taken[place], expected[place]);
        continue;
      }
      std::uint16_t distance = 1;
      while (bad.contains(at(rank, (place + distance) % places))) ++distance;
      const std::uint64_t stand_in = at(rank, (place + distance) % places);
      std::uint32_t pixel = std::to_integer<std::uint32_t>(sample_pixel(stand_in, 0));
      for (const std::uint32_t operation : {0u, 1u}) {
        const RandomKey key = {
            .seed = 1, .sample = stand_in, .occurrence = distance, .operation = operation};
        pixel += RandomStream(key).below(256);
      }
      EXPECT_EQ(taken[place][0], static_cast<std::byte>(pixel)) << "rank " << rank;
    }
  }
}

TEST(LoaderRank, AllSamplesOfARankBadThrowsTheirCount) {
  const auto dataset = std::make_shared<TestSet>(10);
  dataset->on_read = [](std::size_t index) {
    if (index % 4 >= 2) throw Error("gone");
  };
  DataLoaderOptions options = {
      {.batch_size = 2, .shuffle = false, .rank = {1, 2}, .on_bad_sample = OnBadSample::skip}, {}};
  DataLoader loader(dataset, no_transforms(), options);
  EXPECT_THAT(message_of_next(loader), HasSubstr("batch 0: 4 samples in a row are bad"));
  options.rank.index = 0;
  DataLoader other(dataset, no_transforms(), options);
  EXPECT_EQ(message_of_next(other), "");
}

TEST(LoaderRank, CutsHoldTheSamplesOfTheRank) {
  const auto expected = [&] {
    DataLoader loader(test_set(), no_transforms(), make_options(2, kWeighted));
    return take(loader, 3);
  }();
  for (const char* after : {"read", "decode", "collate"}) {
    DataLoaderOptions options = make_options(2, kWeighted);
    options.cut = HostCut{after, std::string(after) == "collate" ? 3U : 9U};
    DataLoader loader(test_set(), no_transforms(), options);
    EXPECT_EQ(take(loader, 3), expected) << after;
  }
}

TEST(LoaderRank, OneSampleIsEnoughForOneRankButNotTwo) {
  const auto dataset = std::make_shared<TestSet>(1);
  for (const Sampling& sampling :
       {Sampling(), Sampling::balanced({3}), Sampling::weighted({0.5})}) {
    const auto taken =
        rank_samples(dataset, {{.batch_size = 1, .sampler = sampling, .drop_last = false}, {}}, 3);
    EXPECT_EQ(taken, rank_samples(dataset, {{.batch_size = 1}, {}}, 3));
  }
  EXPECT_THAT(refusal(dataset, no_transforms(), {{.batch_size = 1, .rank = {1, 2}}, {}}),
              HasSubstr("2 ranks with batch size 1 need more than the 1 samples"));
}

TEST(LoaderRank, AllProblemsAreRefusedTogether) {
  const DataLoaderOptions options = {
      {.batch_size = 16, .sampler = Sampling::weighted({1, 2}), .rank = {3, 3}},
      {.num_workers = 0}};
  EXPECT_THAT(refusal(test_set(), no_transforms(), options),
              AllOf(HasSubstr("num_workers 0"), HasSubstr("rank 3 of 3"),
                    HasSubstr("give smaller batches or fewer ranks"), HasSubstr("of 2 samples")));
  EXPECT_THAT(refusal(std::make_shared<TestSet>(0), no_transforms(), {{.rank = {0, 2}}, {}}),
              HasSubstr("the data set is empty"));
  EXPECT_THAT(refusal(test_set(), no_transforms(), {{.batch_size = 0, .rank = {0, 2}}, {}}),
              HasSubstr("batch size 0"));
}

}  // namespace
}  // namespace slipstream
