#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <system_error>

#include "datasets/storage_error.h"
#include "loader/loader_fixture.h"
#include "loader/sampler.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

constexpr std::size_t kSkipSamples = 23;
constexpr std::size_t kSkipBatch = 4;
constexpr std::uint64_t kSkipBatches = 12;  // more than two epochs of five

std::shared_ptr<TestSet> set_with(const std::set<std::size_t>& bad) {
  const auto dataset = std::make_shared<TestSet>(kSkipSamples);
  dataset->on_read = [bad](std::size_t index) {
    if (index % 2 == 0 && bad.contains(index)) throw Error("gone");
  };
  dataset->on_decode = [bad](std::size_t index) {
    if (index % 4 == 1 && bad.contains(index)) throw Error("corrupt");
  };
  dataset->change = [bad](std::size_t index, Sample& sample) {
    const std::int64_t label = 10;
    if (index % 4 == 3 && bad.contains(index))
      std::memcpy(sample.fields[1].array.span().data, &label, sizeof label);
  };
  return dataset;
}

DataLoaderOptions skip_options(OnBadSample what, unsigned workers = 3) {
  return {{.batch_size = kSkipBatch, .on_bad_sample = what}, {.num_workers = workers}};
}

Bytes part(const DataLoader& loader, const Bytes& slab, std::size_t position) {
  const SlabField& image = loader.layout().field("image");
  const auto* begin = slab.data() + image.offset_bytes + position * image.sample_bytes;
  return {begin, begin + image.sample_bytes};
}

TEST(LoaderSkip, BadSampleIsReplacedByTheNextGoodOne) {
  const std::set<std::size_t> bad = {2, 5, 7, 11, 20};
  DataLoader whole(set_with({}), no_transforms(), skip_options(OnBadSample::stop));
  DataLoader skipping(set_with(bad), no_transforms(), skip_options(OnBadSample::skip));
  const std::vector<Bytes> expected = take(whole, kSkipBatches);
  const std::vector<Bytes> taken = take(skipping, kSkipBatches);

  const Sampler order(kSkipSamples, true, 1);
  std::uint64_t places = 0;
  for (std::uint64_t batch = 0; batch < kSkipBatches; ++batch)
    for (std::size_t position = 0; position < kSkipBatch; ++position) {
      const auto epoch = static_cast<std::uint32_t>(batch / 5);
      std::uint64_t at = batch % 5 * kSkipBatch + position;
      if (!bad.contains(order.at(epoch, at))) {
        EXPECT_EQ(part(skipping, taken[batch], position), part(whole, expected[batch], position));
        continue;
      }
      ++places;
      while (bad.contains(order.at(epoch, at % kSkipSamples))) ++at;
      const std::uint64_t stand_in = order.at(epoch, at % kSkipSamples);
      EXPECT_EQ(part(skipping, taken[batch], position)[1], sample_pixel(stand_in, 1));
    }
  EXPECT_GE(skipping.skipped().replacements, places);  // prefetched batches count, too
}

TEST(LoaderSkip, EachBadSampleIsListedOnceWithItsError) {
  DataLoader loader(set_with({2, 5, 7}), no_transforms(), skip_options(OnBadSample::skip));
  take(loader, kSkipBatches);
  const SkippedSamples skipped = loader.skipped();
  ASSERT_EQ(skipped.samples.size(), 3U);
  EXPECT_EQ(skipped.samples[0].sample, 2U);
  EXPECT_THAT(skipped.samples[0].message, HasSubstr("step 'read' of sample 2 (images/2.jpg"));
  EXPECT_THAT(skipped.samples[1].message, HasSubstr("corrupt"));
  EXPECT_THAT(skipped.samples[2].message, HasSubstr("step 'collate' of sample 7"));
  EXPECT_THAT(skipped.samples[2].message, HasSubstr("class 10"));
}

TEST(LoaderSkip, ResumedRunGivesSameBatchesForAnyWorkerCount) {
  const std::set<std::size_t> bad = {0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 13};
  DataLoader first(set_with(bad), two_transforms(), skip_options(OnBadSample::skip, 1));
  const std::vector<Bytes> all = take(first, kSkipBatches);
  for (const unsigned workers : {1u, 2u, 8u}) {
    DataLoaderOptions options = skip_options(OnBadSample::skip, workers);
    options.first_batch = 7;
    DataLoader later(set_with(bad), two_transforms(), options);
    const std::vector<Bytes> rest = take(later, kSkipBatches - 7);
    for (std::size_t i = 0; i < rest.size(); ++i)
      EXPECT_EQ(rest[i], all[7 + i]) << "batch " << 7 + i;
  }
}

TEST(LoaderSkip, ReplacementGetsNewRandomDraws) {
  DataLoaderOptions options = skip_options(OnBadSample::skip);
  options.shuffle = false;
  DataLoader loader(set_with({4}), two_transforms(), options);
  const std::vector<Bytes> taken = take(loader, 2);
  EXPECT_NE(part(loader, taken[1], 0), part(loader, taken[1], 1));
}

TEST(LoaderSkip, SampleWithMissingFieldIsSkippedLikeAReadError) {
  const auto dataset = std::make_shared<TestSet>(kSkipSamples);
  dataset->change = [](std::size_t index, Sample& sample) {
    if (index == 2) sample.fields.pop_back();
  };
  DataLoader short_of_fields(dataset, no_transforms(), skip_options(OnBadSample::skip, 1));
  DataLoader unread(set_with({2}), no_transforms(), skip_options(OnBadSample::skip, 1));
  EXPECT_EQ(take(short_of_fields, kSkipBatches), take(unread, kSkipBatches));
  EXPECT_THAT(short_of_fields.skipped().samples[0].message,
              HasSubstr("returned 1 field, but it declares 2"));
}

TEST(LoaderSkip, CutsSkipTheSameSamples) {
  const std::set<std::size_t> bad = {2, 5, 7, 11};
  DataLoader whole(set_with(bad), no_transforms(), skip_options(OnBadSample::skip));
  const std::vector<Bytes> expected = take(whole, 3);
  for (const char* after : {"read", "decode", "collate"}) {
    DataLoaderOptions options = skip_options(OnBadSample::skip);
    options.cut = HostCut{after, std::string(after) == "collate" ? 3U : 12U};
    DataLoader loader(set_with(bad), no_transforms(), options);
    EXPECT_EQ(take(loader, 3), expected) << after;
  }
}

TEST(LoaderSkip, AllSamplesBadThrows) {
  const auto dataset = std::make_shared<TestSet>(kSkipSamples);
  dataset->on_read = [](std::size_t) { throw Error("gone"); };
  DataLoader loader(dataset, no_transforms(), skip_options(OnBadSample::skip));
  const std::string message = message_of_next(loader);
  EXPECT_THAT(message, HasSubstr("batch 0: 23 samples in a row are bad"));
  EXPECT_THAT(message, HasSubstr("gone"));
  const auto one = std::make_shared<TestSet>(1);
  one->on_read = dataset->on_read;
  DataLoaderOptions options = skip_options(OnBadSample::skip);
  options.batch_size = 1;
  DataLoader alone(one, no_transforms(), options);
  EXPECT_THAT(message_of_next(alone),
              HasSubstr("batch 0: the only sample is bad, so no other sample"));
}

TEST(LoaderSkip, TransformSystemAndStorageErrorsAreNotSkipped) {
  const Brighten failing = {[] { throw Error("my fault"); }};
  DataLoader transform(std::make_shared<TestSet>(8), {{"one", failing}},
                       skip_options(OnBadSample::skip));
  EXPECT_THAT(message_of_next(transform), HasSubstr("step 'one'"));

  const auto dataset = std::make_shared<TestSet>(8);
  dataset->on_read = [](std::size_t) {
    throw std::system_error(EMFILE, std::generic_category(), "cannot open 'a.jpg'");
  };
  DataLoader machine(dataset, no_transforms(), skip_options(OnBadSample::skip));
  EXPECT_THAT(message_of_next(machine), HasSubstr("Too many open files"));

  dataset->on_read = [](std::size_t) { throw StorageError("'a.tar' was changed"); };
  DataLoader changed(dataset, no_transforms(), skip_options(OnBadSample::skip));
  EXPECT_THAT(message_of_next(changed), HasSubstr("'a.tar' was changed"));
}

}  // namespace
}  // namespace slipstream
