#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "loader/counting_memory.h"
#include "loader/loader_fixture.h"
#include "slipstream/codecs/image.h"
#include "slipstream/transforms/transforms.h"
#include "support/made_set.h"
#include "support/own_op.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

constexpr std::size_t kSamples = 24;
constexpr std::size_t kCacheBatch = 4;
constexpr std::size_t kCacheBatches = 20;  // more than three epochs
constexpr std::size_t kAmple = 1 << 20;
constexpr std::size_t kScarce = 8 * kSamples + 2000;

struct Invert : OwnOp {
  static constexpr std::string_view kName = "invert";

  void apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
    for (std::size_t i = 0; i < in.bytes(); ++i) out.data[i] = ~in.data[i];
  }
};

std::vector<NamedOp> inverted_then_random() {
  return {{"fix", Invert{}}, {"draw", Brighten{}}, {"end", Invert{}}};
}
std::vector<NamedOp> inverted() { return {{"fix", Invert{}}}; }

DataLoaderOptions options_with(std::optional<CacheOptions> cache, unsigned workers = 3) {
  return {{.batch_size = kCacheBatch}, {.num_workers = workers, .cache = std::move(cache)}};
}

std::vector<Bytes> run(const std::vector<NamedOp>& chain, const DataLoaderOptions& options) {
  DataLoader loader(std::make_shared<TestSet>(kSamples), chain, options);
  return take(loader, kCacheBatches);
}

TEST(LoaderCache, GivesSameBatchesAsWithoutCache) {
  for (const auto& chain : {inverted_then_random(), inverted()}) {
    const std::vector<Bytes> expected = run(chain, options_with(std::nullopt));
    for (const char* after : {"read", "decode", "fix"}) {
      for (const std::size_t bytes : {kAmple, kScarce}) {
        for (const unsigned workers : {1U, 2U, 8U}) {
          const DataLoaderOptions options = options_with(CacheOptions{after, bytes}, workers);
          EXPECT_EQ(run(chain, options), expected) << after << bytes << workers;
        }
      }
    }
  }
}

TEST(LoaderCache, CachedStepsRunOncePerSample) {
  const std::vector<std::string> steps = {"read", "decode", "fix", "draw", "end", "collate"};
  for (std::size_t last = 0; last < 3; ++last) {
    const auto dataset = std::make_shared<TestSet>(kSamples);
    DataLoader loader(dataset, inverted_then_random(),
                      options_with(CacheOptions{steps[last], kAmple}, 1));
    take(loader, kCacheBatches);
    EXPECT_EQ(dataset->reads.count(), kSamples);
    const auto counters = loader.counters();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (i <= last) {
        EXPECT_EQ(counters[i].calls, kSamples) << steps[i];
      } else {
        EXPECT_GE(counters[i].calls, kCacheBatch * kCacheBatches) << steps[i];
      }
    }
    const CacheCounters cache = loader.cache();
    EXPECT_EQ(cache.samples, kSamples);
    EXPECT_GE(cache.hits, kCacheBatch * kCacheBatches - kSamples);
    EXPECT_TRUE(cache.is_filling);
    EXPECT_GT(cache.bytes, 8 * kSamples);
  }
}

TEST(LoaderCache, NeverExceedsItsBudgetAndEvictsNothing) {
  CountingMemory memory;
  const auto dataset = std::make_shared<TestSet>(kSamples);
  {
    DataLoader loader(dataset, no_transforms(),
                      options_with(CacheOptions{"decode", kScarce, &memory}));
    take(loader, kCacheBatches);
    const CacheCounters cache = loader.cache();
    EXPECT_FALSE(cache.is_filling);
    EXPECT_EQ(cache.samples, 2000U / 256);
    EXPECT_EQ(cache.bytes, memory.bytes());
    EXPECT_LE(memory.peak_bytes(), kScarce);
    // Cached samples are read once, all others in every epoch.
    EXPECT_GE(dataset->reads.count(), kSamples + 2 * (kSamples - cache.samples));
    EXPECT_GE(cache.hits, 2 * cache.samples);
  }
  EXPECT_EQ(memory.bytes(), 0U);
}

TEST(LoaderCache, OutOfMemoryStopsFillingButNotTheLoader) {
  const std::vector<Bytes> expected = run(inverted(), options_with(std::nullopt));
  for (const std::size_t allocations : {0U, 1U}) {
    CountingMemory memory(allocations);
    DataLoader loader(std::make_shared<TestSet>(kSamples), inverted(),
                      options_with(CacheOptions{"fix", kAmple, &memory}));
    EXPECT_EQ(take(loader, kCacheBatches), expected);
    EXPECT_EQ(loader.cache().samples, 0U);
    EXPECT_FALSE(loader.cache().is_filling);
  }
}

TEST(LoaderCache, BadSamplesAreSkippedAndNotCached) {
  const auto dataset_with_bad = [] {
    const auto dataset = std::make_shared<TestSet>(kSamples);
    dataset->on_read = [](std::size_t index) {
      if (index == 2 || index == 11) throw Error("gone");
    };
    dataset->on_decode = [](std::size_t index) {
      if (index == 5) throw Error("corrupt");
    };
    dataset->change = [](std::size_t index, Sample& sample) {
      const std::int64_t label = index == 7 ? 10 : 1;
      std::memcpy(sample.fields[1].array.span().data, &label, sizeof label);
    };
    return dataset;
  };
  DataLoaderOptions options = options_with(std::nullopt);
  options.on_bad_sample = OnBadSample::skip;
  DataLoader plain(dataset_with_bad(), inverted_then_random(), options);
  const std::vector<Bytes> expected = take(plain, kCacheBatches);
  for (const char* after : {"read", "decode", "fix"}) {
    options.cache = CacheOptions{after, kAmple};
    DataLoader loader(dataset_with_bad(), inverted_then_random(), options);
    EXPECT_EQ(take(loader, kCacheBatches), expected) << after;
    EXPECT_EQ(loader.skipped().samples.size(), 4U) << after;
    EXPECT_EQ(loader.cache().samples, kSamples - (std::string(after) == "read" ? 2 : 3)) << after;
  }
}

TEST(LoaderCache, FailingSampleGivesSameErrorAsWithoutCache) {
  const auto dataset = std::make_shared<TestSet>(kSamples);
  dataset->on_decode = [](std::size_t) { throw Error("corrupt"); };
  DataLoaderOptions options = options_with(CacheOptions{"read", kAmple});
  options.shuffle = false;
  DataLoader loader(dataset, no_transforms(), options);
  EXPECT_EQ(message_of_next(loader),
            "step 'decode' of sample 0 (images/0.jpg, epoch 0, batch 0): corrupt");
}

TEST(LoaderCache, CacheAfterARandomTransformIsRefused) {
  for (const char* after : {"draw", "end"}) {
    const std::string message = refusal(std::make_shared<TestSet>(kSamples), inverted_then_random(),
                                        options_with(CacheOptions{after, kAmple}));
    EXPECT_EQ(message, "cannot cache after '" + std::string(after) +
                           "': transform 'draw' is random, so its results differ from epoch "
                           "to epoch; cache after 'fix' or before");
  }
  EXPECT_THAT(refusal(std::make_shared<TestSet>(kSamples), two_transforms(),
                      options_with(CacheOptions{"one", kAmple})),
              HasSubstr("cache after 'decode' or before"));
}

TEST(LoaderCache, UnknownStepAndTooFewBytesAreRefusedTogether) {
  const auto dataset = std::make_shared<TestSet>(kSamples);
  EXPECT_EQ(
      refusal(dataset, inverted(), options_with(CacheOptions{"decod", 191})),
      "unknown step to cache after 'decod'; did you mean 'decode'? known: read, decode, fix\n"
      "a cache of 191 bytes is too small even for its index of 192, 8 bytes for each sample: give "
      "more memory, or no cache");
  EXPECT_THAT(refusal(dataset, inverted(), options_with(CacheOptions{"collate", kAmple})),
              HasSubstr("unknown step to cache after 'collate'"));
  EXPECT_EQ(refusal(dataset, inverted(), options_with(CacheOptions{"fix", 192})), "");
}

TEST(LoaderCache, CutDisablesTheCache) {
  DataLoaderOptions options = options_with(std::nullopt);
  options.cut = HostCut{"decode", 5};
  const std::vector<Bytes> expected = run(inverted_then_random(), options);
  options.cache = CacheOptions{"read", kAmple};
  DataLoader loader(std::make_shared<TestSet>(kSamples), inverted_then_random(), options);
  EXPECT_EQ(take(loader, kCacheBatches), expected);
  EXPECT_EQ(loader.cache().bytes, 0U);
}

TEST(LoaderCache, WithoutCacheCountersAreZero) {
  DataLoader loader(std::make_shared<TestSet>(kSamples), inverted(), options_with(std::nullopt));
  take(loader, kCacheBatches);
  EXPECT_EQ(loader.cache().hits, 0U);
  EXPECT_FALSE(loader.cache().is_filling);
}

/// JPEG files of noise, in different sizes.
std::shared_ptr<const Dataset> noise_files() {
  std::vector<Bytes> files;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(kSamples); ++i) {
    HostArray pixels;
    const MutableArray out = pixels.reset(DType::uint8, {60 + i, 90 - i, 3});
    for (std::size_t k = 0; k < out.bytes(); ++k) out.data[k] = sample_pixel(k * k, k % 97);
    files.push_back(encode_jpeg(out, 90));
  }
  return set_of_files(std::move(files));
}

/// Returns the mean number of bytes that "decode" produced per call.
double decoded_bytes(const DataLoader& loader) {
  const StepCounter decode = loader.counters()[1];
  return static_cast<double>(decode.bytes) / static_cast<double>(decode.calls);
}

TEST(LoaderCacheWithCrop, HoldsWholeImagesBeforeARandomCrop) {
  constexpr double kCropBytes = 24 * 20 * 3;
  const auto dataset = noise_files();
  const std::vector<NamedOp> chain = {{"crop", RandomCrop{{24, 20}}}};
  DataLoader plain(dataset, chain, options_with(std::nullopt));
  const std::vector<Bytes> expected = take(plain, kCacheBatches);
  EXPECT_LT(decoded_bytes(plain), 2 * kCropBytes);

  DataLoader whole(dataset, chain, options_with(CacheOptions{"decode", kAmple}));
  EXPECT_EQ(take(whole, kCacheBatches), expected);
  EXPECT_EQ(whole.cache().samples, kSamples);
  EXPECT_GT(decoded_bytes(whole), 5 * kCropBytes);

  // The cache has space only for its index. As soon as that is known, images are decoded in part
  // again.
  DataLoader full(dataset, chain, options_with(CacheOptions{"decode", 8 * kSamples + 1}, 1));
  EXPECT_EQ(take(full, kCacheBatches), expected);
  EXPECT_EQ(full.cache().samples, 0U);
  EXPECT_LT(decoded_bytes(full), 2 * kCropBytes);

  DataLoader read(dataset, chain, options_with(CacheOptions{"read", kAmple}));
  EXPECT_EQ(take(read, kCacheBatches), expected);
  EXPECT_LT(decoded_bytes(read), 2 * kCropBytes);
}

TEST(LoaderCacheWithCrop, HoldsOnlyTheCropAfterAFixedCrop) {
  const auto dataset = noise_files();
  const std::vector<NamedOp> chain = {{"crop", CenterCrop{{24, 20}}},
                                      {"flip", RandomHorizontalFlip{0.5}}};
  DataLoader plain(dataset, chain, options_with(std::nullopt));
  DataLoader cached(dataset, chain, options_with(CacheOptions{"crop", kAmple}));
  EXPECT_EQ(take(cached, kCacheBatches), take(plain, kCacheBatches));
  EXPECT_LT(decoded_bytes(cached), 2 * 24 * 20 * 3);
}

}  // namespace
}  // namespace slipstream
