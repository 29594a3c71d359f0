#include <gmock/gmock.h>

#include "engine/engine.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/datasets/disk_cache.h"
#include "support/temporary_folder.h"

namespace slipstream::test {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

constexpr std::uint64_t kSamples = 64;
constexpr std::uint64_t kEpoch = 16;                 // steps
constexpr std::uint64_t kMaxPrefetchedSamples = 64;  // samples that may be prefetched

class CacheTest : public EngineTest {
 protected:
  static Plan with_memory_cache(Plan plan) {
    plan.schedule.loader.cache = CacheOptions{"read", 1 << 20};
    return plan;
  }

  std::shared_ptr<const Dataset> disk_cached_dataset() const {
    SyntheticOptions synthetic;
    synthetic.samples = kSamples;
    synthetic.size = 8;
    synthetic.classes = 5;
    return disk_cached(synthetic_segmentation(synthetic), {folder_.path() / "cache", 10 << 20});
  }

  TemporaryFolder folder_;
};

TEST_F(CacheTest, EachRunReportsItsOwnMemoryCacheHitsAndMisses) {
  const auto one = trainer({.samples = kSamples});
  const auto first = one->run(with_memory_cache(serial_plan()), steps(kEpoch)).cache;
  ASSERT_TRUE(first);
  EXPECT_EQ(first->misses, kSamples);
  EXPECT_EQ(first->samples, kSamples);
  EXPECT_THAT(first->hits, Le(kMaxPrefetchedSamples));
  EXPECT_GT(first->bytes, kSamples * 8 * 8 * 3);
  const auto second = one->run(with_memory_cache(serial_plan()), steps(kEpoch)).cache;
  ASSERT_TRUE(second);
  EXPECT_EQ(second->misses, 0U);
  EXPECT_THAT(first->hits + second->hits,
              AllOf(Ge(kSamples), Le(kSamples + kMaxPrefetchedSamples)));
  EXPECT_EQ(second->samples, kSamples);
}

TEST_F(CacheTest, EachRunReportsItsOwnDiskCacheHitsAndMisses) {
  Tiny tiny;
  tiny.dataset = disk_cached_dataset();
  const auto first = trainer(tiny)->run(serial_plan(), steps(kEpoch)).disk_cache;
  ASSERT_TRUE(first);
  EXPECT_EQ(first->misses, kSamples);
  EXPECT_EQ(first->stored, kSamples);
  EXPECT_EQ(first->stop_reason, "");
  const auto again = trainer(tiny);
  for (int run = 0; run < 2; ++run) {
    const auto later = again->run(serial_plan(), steps(kEpoch)).disk_cache;
    ASSERT_TRUE(later);
    EXPECT_EQ(later->misses, 0U);
    EXPECT_EQ(later->stored, 0U);
    EXPECT_THAT(later->hits, AllOf(Ge(1), Le(kSamples + kMaxPrefetchedSamples)));
    EXPECT_EQ(later->bytes, first->bytes);
  }
}

TEST_F(CacheTest, RunThatUsesNoCacheReportsNoCacheCounts) {
  const auto one = trainer({.samples = kSamples});
  const RunResult plain = one->run(serial_plan(), steps(2));
  EXPECT_FALSE(plain.cache);
  EXPECT_FALSE(plain.disk_cache);
  RunOptions after_collate = steps(2);
  after_collate.cut = Cut{"collate", 1};
  EXPECT_FALSE(one->run(with_memory_cache(serial_plan()), after_collate).cache);
}

TEST_F(CacheTest, AutoRunSumsCacheCountsOverAllParts) {
  Tiny tiny;
  tiny.dataset = disk_cached_dataset();
  const auto one = trainer(tiny);
  const Plan pipelined = build_plan(kThreeLanes, Driver::threaded, 3);
  const std::uint64_t all = 16 * kEpoch;  // 4 parts of 30 steps, then the rest
  const RunResult result =
      run_auto(*one, with_memory_cache(serial_plan()), with_memory_cache(pipelined), steps(all))
          .run;
  ASSERT_TRUE(result.cache && result.disk_cache);
  // Samples that are prefetched between two parts belong to neither.
  EXPECT_THAT(result.cache->hits + result.cache->misses, Ge(4 * all - 4 * kMaxPrefetchedSamples));
  EXPECT_GT(result.disk_cache->misses, 0U);
}

}  // namespace
}  // namespace slipstream::test
