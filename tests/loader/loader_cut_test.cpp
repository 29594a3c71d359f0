#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loader/loader_fixture.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

DataLoaderOptions cut_after(const std::string& step, std::size_t items) {
  return with(&DataLoaderOptions::cut, HostCut{step, items},
              {{.batch_size = 4}, {.num_workers = 3}});
}

class LoaderCut : public testing::TestWithParam<std::size_t> {
 protected:
  const std::vector<std::string> steps_ = {"read", "decode", "one", "two", "collate"};
};

TEST_P(LoaderCut, StepsUpToTheCutDoNotRunAgain) {
  const auto dataset = std::make_shared<TestSet>(12);
  DataLoader loader(dataset, two_transforms(), cut_after(steps_[GetParam()], 5));
  const std::size_t reads = dataset->reads.count();
  EXPECT_EQ(reads, steps_[GetParam()] == "collate" ? 20u : 5u);
  take(loader, 10);
  EXPECT_EQ(dataset->reads.count(), reads);
  const auto counters = loader.counters();
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    EXPECT_EQ(counters[i].name, steps_[i]);
    if (i <= GetParam()) {
      EXPECT_EQ(counters[i].calls, 0u) << steps_[i];
    } else {
      EXPECT_GE(counters[i].calls, 40u) << steps_[i];
    }
  }
}

TEST_P(LoaderCut, FirstItemsEqualThoseWithoutCut) {
  const auto whole = [&](std::optional<HostCut> cut) {
    DataLoaderOptions options = cut_after("read", 1);
    options.cut = std::move(cut);
    DataLoader loader(std::make_shared<TestSet>(12), two_transforms(), options);
    return take(loader, 3);
  };
  const std::size_t items = steps_[GetParam()] == "collate" ? 3 : 12;
  EXPECT_EQ(whole(HostCut{steps_[GetParam()], items}), whole(std::nullopt));
}

TEST_P(LoaderCut, ItemsRepeatInTurnFromAnyFirstBatch) {
  const auto labels = [&](std::uint64_t first, std::size_t batches) {
    DataLoaderOptions options = cut_after(steps_[GetParam()], 5);
    options.first_batch = first;
    DataLoader loader(std::make_shared<TestSet>(10), two_transforms(), options);
    const std::size_t offset = loader.layout().field("label").offset_bytes;
    std::vector<int> taken;
    for (const Bytes& slab : take(loader, batches)) {
      for (std::size_t i = 0; i < 4; ++i) taken.push_back(static_cast<int>(slab[offset + i]));
    }
    return taken;
  };
  const std::vector<int> all = labels(0, 12);
  const std::size_t period = steps_[GetParam()] == "collate" ? 20 : 5;
  for (std::size_t i = period; i < all.size(); ++i) EXPECT_EQ(all[i], all[i - period]) << i;
  EXPECT_EQ(labels(7, 5), std::vector<int>(all.begin() + 28, all.end()));
}

TEST_P(LoaderCut, SameBytesForAnyNumberOfWorkers) {
  const auto run = [&](unsigned workers) {
    DataLoaderOptions options = cut_after(steps_[GetParam()], 5);
    options.num_workers = workers;
    DataLoader loader(std::make_shared<TestSet>(12), two_transforms(), options);
    return take(loader, 12);
  };
  EXPECT_EQ(run(1), run(8));
}

TEST_P(LoaderCut, ErrorReportsTheFirstFailingItem) {
  const auto dataset = std::make_shared<TestSet>(12);
  dataset->on_read = [](std::size_t index) {
    if (index >= 2) throw Error("gone");
  };
  DataLoaderOptions options = cut_after(steps_[GetParam()], 5);
  options.shuffle = false;
  try {
    const DataLoader loader(dataset, two_transforms(), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "step 'read' of sample 2 (images/2.jpg, epoch 0, batch 0): gone");
  }
}

INSTANTIATE_TEST_SUITE_P(AfterEachStep, LoaderCut, testing::Range<std::size_t>(0, 5));

TEST(LoaderCutBeforeARandomStep, RandomDrawsDependOnCachedSampleAndEpoch) {
  DataLoaderOptions options = cut_after("decode", 2);
  options.batch_size = 1;
  options.shuffle = false;
  DataLoader loader(std::make_shared<TestSet>(3), {{"one", Brighten{}}}, options);
  for (std::uint64_t number = 0; number < 12; ++number) {
    const HostBatch batch = loader.next();
    const std::uint64_t sample = number % 2;
    const std::uint32_t by =
        RandomStream({.seed = 1, .epoch = batch.epoch, .sample = sample}).below(256);
    const auto expected = std::to_integer<std::uint32_t>(sample_pixel(sample, 0)) + by;
    EXPECT_EQ(batch.data[0], static_cast<std::byte>(expected)) << number;
    loader.release(batch, nullptr);
  }
}

TEST(LoaderCutAfterCollate, SlabsAreReturnedInTurnWithoutBlocking) {
  DataLoaderOptions options = cut_after("collate", 3);
  options.first_batch = 4;
  DataLoader loader(std::make_shared<TestSet>(12), two_transforms(), options);
  EXPECT_EQ(loader.slabs(), 3u);
  std::vector<Bytes> seen(3);
  for (std::uint64_t number = 4; number < 13; ++number) {
    EXPECT_TRUE(loader.ready());
    const HostBatch batch = loader.next();
    EXPECT_EQ(batch.number, number);
    EXPECT_EQ(batch.epoch, number / 3);
    EXPECT_EQ(batch.slab, number % 3);
    if (number >= 7) {
      EXPECT_EQ(copy_slab_bytes(loader, batch), seen[batch.slab]);
    }
    seen[batch.slab] = copy_slab_bytes(loader, batch);
    if (number % 2 == 0) loader.release(batch, nullptr);
  }
  EXPECT_EQ(loader.blocked_s(), 0);
}

}  // namespace
}  // namespace slipstream
