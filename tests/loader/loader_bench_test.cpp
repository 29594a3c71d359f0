#include "loader/loader_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loader/loader_fixture.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LoaderRate rate(unsigned workers, double value) {
  return {workers, {value, value, value, "samples/s", 1}, {}};
}

TEST(LoaderBench, MeasuresEachWorkerCountAndItsSteps) {
  const auto dataset = std::make_shared<TestSet>(20);
  const auto rates = measure_loader(dataset, two_transforms(), {{.batch_size = 4}, {}},
                                    {.workers = {1, 3}, .seconds = 0.001, .repeats = 2});
  ASSERT_EQ(rates.size(), 2U);
  EXPECT_EQ(rates[0].workers, 1U);
  EXPECT_EQ(rates[1].workers, 3U);
  for (const LoaderRate& each : rates) {
    EXPECT_GT(each.samples_per_second.value, 0);
    EXPECT_EQ(each.samples_per_second.unit, "samples/s");
    EXPECT_GE(each.samples_per_second.n, 1U);
    ASSERT_EQ(each.steps.size(), 5U);
    EXPECT_EQ(each.steps[0].name, "read");
    // Each of two rounds takes the slabs that were filled first and at least four more batches.
    EXPECT_GE(each.steps[0].calls, 2U * 4 * (4 + 4));
  }
}

TEST(LoaderBench, ReportsCacheHitsAndMissesOverAllRounds) {
  const TemporaryFolder folder;
  const auto dataset = disk_cached(std::make_shared<TestSet>(20), {folder.path() / "c", 1 << 20});
  const LoaderBenchOptions options{.workers = {1, 2}, .seconds = 0.001, .repeats = 2};
  const auto plain = measure_loader(dataset, {}, {{.batch_size = 4}, {}}, options);
  EXPECT_FALSE(plain[0].cache.has_value());
  ASSERT_TRUE(plain[0].disk_cache && plain[1].disk_cache);
  EXPECT_EQ(plain[0].disk_cache->misses, 20U);
  EXPECT_EQ(plain[1].disk_cache->misses, 0U);
  for (const LoaderRate& rate : plain) {
    EXPECT_GE(rate.disk_cache->hits + rate.disk_cache->misses, rate.steps[0].calls);
  }
  const DataLoaderOptions with_cache{{.batch_size = 4}, {.cache = CacheOptions{"read", 1 << 20}}};
  for (const LoaderRate& rate : measure_loader(dataset, {}, with_cache, options)) {
    ASSERT_TRUE(rate.cache);
    EXPECT_EQ(rate.cache->samples, 20U);
    EXPECT_GE(rate.cache->misses, 2 * 20U);
    EXPECT_GT(rate.cache->hits, 0U);
    EXPECT_EQ(rate.disk_cache->hits, rate.cache->misses);
  }
  EXPECT_FALSE(measure_loader(std::make_shared<TestSet>(8), {}, {{.batch_size = 4}, {}}, options)[0]
                   .disk_cache);
}

TEST(LoaderBench, StopOmitsWorkerCountsNotMeasured) {
  unsigned asked = 0;
  LoaderBenchOptions options{.workers = {1, 2}, .seconds = 1e9, .repeats = 1};
  options.stop = [&] { return ++asked > 20; };
  EXPECT_EQ(
      measure_loader(std::make_shared<TestSet>(20), {}, {{.batch_size = 4}, {}}, options).size(),
      1U);
}

TEST(LoaderBench, ProgressIsReportedAfterEachMeasurement) {
  std::vector<std::size_t> reported;
  LoaderBenchOptions options{.workers = {1, 2}, .seconds = 0.001, .repeats = 2};
  options.progress = [&](std::size_t done, std::size_t all) {
    reported.push_back(done);
    EXPECT_EQ(all, 4U);
  };
  measure_loader(std::make_shared<TestSet>(20), {}, {{.batch_size = 4}, {}}, options);
  EXPECT_THAT(reported, ElementsAre(1, 2, 3, 4));
}

TEST(LoaderBench, NoWorkerCountsIsRefused) {
  EXPECT_THROW(
      measure_loader(std::make_shared<TestSet>(8), {}, {{.batch_size = 4}, {}}, {.workers = {}}),
      Refused);
}

TEST(LoaderBench, SampleErrorIsRethrownWithItsName) {
  const auto dataset = std::make_shared<TestSet>(8);
  dataset->on_read = [](std::size_t index) {
    if (index == 3) throw Error("gone");
  };
  try {
    measure_loader(dataset, {}, {{.batch_size = 4}, {}}, {.workers = {1}, .seconds = 1});
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("images/3.jpg"));
  }
}

TEST(FewestWorkers, ReturnsFewestWithNearlyTheBestRate) {
  EXPECT_EQ(fewest_workers(std::vector{rate(1, 100), rate(2, 198), rate(4, 200), rate(8, 160)}),
            2U);
  EXPECT_EQ(fewest_workers(std::vector{rate(1, 100), rate(2, 190), rate(4, 200)}), 4U);
  EXPECT_EQ(fewest_workers(std::vector{rate(8, 50), rate(1, 100)}), 1U);
}

TEST(WorkersToTry, DoubleUpToTheMaximum) {
  EXPECT_THAT(workers_to_try(1), ElementsAre(1));
  EXPECT_THAT(workers_to_try(6), ElementsAre(1, 2, 4, 6));
  EXPECT_THAT(workers_to_try(8), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(workers_to_try(0), ElementsAre(1));
}

TEST(PrefetchFactor, MultipliesWorkersAndIsLimitedTo4096) {
  EXPECT_EQ(prefetched_by(2, 8), 16U);
  EXPECT_EQ(prefetched_by(1024, 4), 4096U);
  EXPECT_THAT(thrown_by([] { prefetched_by(1025, 4); }),
              testing::AllOf(testing::StartsWith("Refused: --prefetch-factor 1025 with 4 workers"),
                             testing::HasSubstr("4100 batches, but at most 4096")));
}

}  // namespace
}  // namespace slipstream
