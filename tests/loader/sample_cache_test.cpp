#include "loader/sample_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "loader/counting_memory.h"
#include "support/array_values.h"

namespace slipstream {
namespace {

constexpr std::size_t kSampleCacheSamples = 40;
constexpr std::size_t kEntry = 2 * 64 + 64 + 128;  // two fields: 12 and 100 bytes

Sample cached_sample(std::uint64_t number) {
  Sample sample;
  sample.fields.resize(2);
  sample.fields[0].array.reset(DType::float32, {1, 3});
  std::memset(sample.fields[0].array.span().data, static_cast<int>(number), 12);
  sample.fields[1].array.reset(DType::uint8, {100});
  std::memset(sample.fields[1].array.span().data, static_cast<int>(number + 100), 100);
  sample.fields[1].encoded = true;
  return sample;
}

void expect_is(std::span<const CachedField> cached, std::uint64_t number) {
  const Sample expected = cached_sample(number);
  ASSERT_EQ(cached.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const ConstArray value = expected.fields[i].array.view();
    EXPECT_EQ(cached[i].encoded, expected.fields[i].encoded);
    EXPECT_EQ(cached[i].value.dtype, value.dtype);
    EXPECT_EQ(cached[i].value.shape, value.shape);
    EXPECT_EQ(std::memcmp(cached[i].value.data, value.data, value.bytes()), 0);
  }
}

TEST(SampleCache, FindReturnsStoredSamplesAndCountsHits) {
  SampleCache cache(kSampleCacheSamples, 2, {.bytes = 1 << 20});
  EXPECT_TRUE(cache.find(7).empty());
  cache.put(7, cached_sample(7));
  cache.put(0, cached_sample(0));
  cache.put(7, cached_sample(8));
  expect_is(cache.find(7), 7);
  expect_is(cache.find(0), 0);
  EXPECT_TRUE(cache.find(1).empty());
  const CacheCounters counters = cache.counters();
  EXPECT_EQ(counters.samples, 2U);
  EXPECT_EQ(counters.hits, 2U);
  EXPECT_EQ(counters.misses, 2U);
  EXPECT_TRUE(counters.is_filling);
}

TEST(SampleCache, HoldsFieldsWithoutValues) {
  SampleCache cache(1, 1, {.bytes = 1000});
  Sample sample;
  sample.fields.resize(1);
  sample.fields[0].array.reset(DType::int64, {0, 5});
  cache.put(0, sample);
  ASSERT_EQ(cache.find(0).size(), 1U);
  EXPECT_EQ(cache.find(0)[0].value.shape, Shape({0, 5}));
}

TEST(SampleCache, StoresSamplesUpToItsBudget) {
  CountingMemory memory;
  const std::size_t budget = 8 * kSampleCacheSamples + 3 * kEntry + kEntry - 1;
  {
    SampleCache cache(kSampleCacheSamples, 2, {.bytes = budget, .memory = &memory});
    for (std::uint64_t i = 0; i < kSampleCacheSamples; ++i) cache.put(i, cached_sample(i));
    for (std::uint64_t i = 0; i < 3; ++i) expect_is(cache.find(i), i);
    for (std::uint64_t i = 3; i < kSampleCacheSamples; ++i) EXPECT_TRUE(cache.find(i).empty());
    const CacheCounters counters = cache.counters();
    EXPECT_EQ(counters.samples, 3U);
    EXPECT_EQ(counters.bytes, memory.bytes());
    EXPECT_FALSE(counters.is_filling);
    EXPECT_LE(memory.peak_bytes(), budget);
  }
  EXPECT_EQ(memory.bytes(), 0U);
}

TEST(SampleCache, LargeSamplesUseSeparateBlocks) {
  CountingMemory memory;
  constexpr std::size_t kLarge = std::size_t{9} << 20;
  const std::size_t budget = 8 * kSampleCacheSamples + 3 * (kLarge + 64);
  SampleCache cache(kSampleCacheSamples, 1, {.bytes = budget, .memory = &memory});
  Sample sample;
  sample.fields.resize(1);
  sample.fields[0].array.reset(DType::uint8, {static_cast<std::int64_t>(kLarge)});
  for (std::uint64_t i = 0; i < 4; ++i) cache.put(i, sample);
  EXPECT_EQ(cache.counters().samples, 3U);
  EXPECT_EQ(memory.peak_bytes(), budget);
}

TEST(SampleCache, FirstSampleThatDoesNotFitEndsFilling) {
  SampleCache cache(kSampleCacheSamples, 2, {.bytes = 8 * kSampleCacheSamples + 4 * kEntry});
  Sample large = cached_sample(1);
  large.fields[1].array.reset(DType::uint8, {10000});
  cache.put(0, cached_sample(0));
  cache.put(1, large);
  EXPECT_FALSE(cache.is_filling());
  cache.put(2, cached_sample(2));
  EXPECT_TRUE(cache.find(1).empty());
  EXPECT_TRUE(cache.find(2).empty());
  expect_is(cache.find(0), 0);
}

TEST(SampleCache, OutOfMemoryStoresNothing) {
  for (const std::size_t allocations : {0U, 1U}) {
    CountingMemory memory(allocations);
    SampleCache cache(kSampleCacheSamples, 2, {.bytes = 1 << 20, .memory = &memory});
    EXPECT_EQ(cache.is_filling(), allocations == 1);
    cache.put(0, cached_sample(0));
    EXPECT_TRUE(cache.find(0).empty());
    EXPECT_FALSE(cache.counters().is_filling);
    EXPECT_EQ(cache.counters().bytes, memory.bytes());
  }
}

TEST(SampleCache, ConcurrentReadersSeeCompleteSamplesOrNone) {
  for (const std::size_t budget : {std::size_t{1} << 20, 8 * kSampleCacheSamples + 10 * kEntry}) {
    SampleCache cache(kSampleCacheSamples, 2, {.bytes = budget});
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
          for (std::uint64_t i = 0; i < 20 * kSampleCacheSamples; ++i) {
            const std::uint64_t sample = i * (t % 2 == 0 ? 1 : 7) % kSampleCacheSamples;
            if (const auto cached = cache.find(sample); !cached.empty()) {
              expect_is(cached, sample);
            } else {
              cache.put(sample, cached_sample(sample));
            }
          }
        });
      }
    }
    std::size_t found = 0;
    for (std::uint64_t i = 0; i < kSampleCacheSamples; ++i) found += cache.find(i).empty() ? 0 : 1;
    EXPECT_EQ(found, budget == 1 << 20 ? kSampleCacheSamples : 10U);
    EXPECT_EQ(cache.counters().samples, found);
  }
}

}  // namespace
}  // namespace slipstream
