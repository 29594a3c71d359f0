#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "loader/batch_queue.h"
#include "loader/loader_fixture.h"
#include "loader/running_order.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DataLoaderOptions listed(std::size_t batch_size, unsigned workers = 2) {
  DataLoaderOptions options = {{.batch_size = batch_size}, {.num_workers = workers}};
  options.batches = std::make_shared<BatchQueue>();
  return options;
}

void add(const DataLoaderOptions& options, const std::vector<std::uint64_t>& samples) {
  std::vector<BatchQueue::Item> items;
  for (const std::uint64_t sample : samples) items.push_back({sample, 0});
  options.batches->add(options.batches->size(), std::move(items));
}

/// Returns the labels of the first `count` samples of a batch. TestSet gives sample n the label
/// n % 10.
std::vector<int> labels(const DataLoader& loader, const HostBatch& batch, std::size_t count) {
  const std::byte* first = batch.data + loader.layout().field("label").offset_bytes;
  std::vector<int> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(std::to_integer<int>(first[i]));
  return all;
}

TEST(ListedBatches, BatchesOfSeveralSizesContainTheListedSamplesInOrder) {
  const DataLoaderOptions options = listed(3, 4);
  add(options, {7, 2, 9});
  add(options, {1});
  add(options, {3, 3});
  DataLoader loader(std::make_shared<TestSet>(10), no_transforms(), options);
  const std::vector<std::vector<int>> expected = {{7, 2, 9}, {1}, {3, 3}};
  for (const std::vector<int>& each : expected) {
    const HostBatch batch = loader.next();
    EXPECT_EQ(labels(loader, batch, each.size()), each);
    loader.release(batch, nullptr);
  }
}

TEST(ListedBatches, WaitingWorkersContinueWhenABatchIsAdded) {
  const DataLoaderOptions options = listed(2, 3);
  DataLoader loader(std::make_shared<TestSet>(10), no_transforms(), options);
  for (int number = 0; number < 50; ++number) {
    EXPECT_FALSE(loader.ready());
    add(options, {5, static_cast<std::uint64_t>(number % 10)});
    loader.notify_added();
    const HostBatch batch = loader.next();
    EXPECT_THAT(labels(loader, batch, 2), ElementsAre(5, number % 10));
    loader.release(batch, nullptr);
    options.batches->drop_before(batch.number + 1);
  }
}

TEST(ListedBatches, NumbersStartAtTheFirstBatchOfTheQueue) {
  DataLoaderOptions options = listed(2);
  options.batches = std::make_shared<BatchQueue>(7);
  options.first_batch = 7;
  EXPECT_EQ(options.batches->size(), 7);
  add(options, {4, 5});
  add(options, {6, 7});
  EXPECT_FALSE(options.batches->has(6));
  EXPECT_TRUE(options.batches->has(7) && options.batches->has(8));
  EXPECT_FALSE(options.batches->has(9));
  DataLoader loader(std::make_shared<TestSet>(10), no_transforms(), options);
  for (const std::uint64_t number : {7, 8}) {
    const HostBatch batch = loader.next();
    EXPECT_EQ(batch.number, number);
    EXPECT_EQ(labels(loader, batch, 1).front(), number == 7 ? 4 : 6);
    loader.release(batch, nullptr);
    options.batches->drop_before(number + 1);
    EXPECT_FALSE(options.batches->has(number));
  }
}

TEST(ListedBatches, SmallerBatchIsFilledUpWithItsSamplesIfRequested) {
  DataLoaderOptions options = listed(5);
  options.fills_up = true;
  add(options, {3, 8});
  DataLoader loader(std::make_shared<TestSet>(10), no_transforms(), options);
  EXPECT_THAT(labels(loader, loader.next(), 5), ElementsAre(3, 8, 3, 8, 3));
}

TEST(ListedBatches, BatchMayBeLargerThanTheDataSet) {
  const DataLoaderOptions options = listed(4);
  add(options, {0, 1, 1, 0});
  DataLoader loader(std::make_shared<TestSet>(2), no_transforms(), options);
  EXPECT_THAT(labels(loader, loader.next(), 4), ElementsAre(0, 1, 1, 0));
}

TEST(ListedBatches, NumberOfABatchSelectsTheEpochAndRandomNumbersOfTheBatch) {
  const DataLoaderOptions options = listed(3);
  options.batches->add((std::uint64_t{4} << 32) + 7, {{6, 0}, {6, 1}, {1, 0}});
  const RunningOrder order(10, options);
  EXPECT_EQ(order.at(0, 1).occurrence, 1);
  EXPECT_EQ(order.at(0, 1).epoch, 4u);
  EXPECT_EQ(order.at(0, 1).batch_key, (std::uint64_t{4} << 32) + 7);
}

TEST(ListedBatches, PositionAfterTheLastSampleRepeatsABatchWithOtherOccurrences) {
  const DataLoaderOptions options = listed(4);
  add(options, {8, 3});
  const RunningOrder order(10, options);
  EXPECT_EQ(order.at(0, 2).sample, 8u);
  EXPECT_EQ(order.at(0, 3).sample, 3u);
  const std::set<std::uint16_t> occurrences = {order.at(0, 0).occurrence,
                                               order.at(0, 2).occurrence};
  EXPECT_EQ(occurrences.size(), 2u);
}

TEST(ListedBatches, BadSampleIsReplacedByTheNextOneOfItsBatch) {
  DataLoaderOptions options = listed(3, 1);
  options.on_bad_sample = OnBadSample::skip;
  add(options, {4, 2, 6});
  auto dataset = std::make_shared<TestSet>(10);
  dataset->on_read = [](std::size_t index) {
    if (index == 2) throw Error("gone");
  };
  DataLoader loader(dataset, no_transforms(), options);
  const HostBatch batch = loader.next();
  EXPECT_THAT(labels(loader, batch, 3), ElementsAre(4, 6, 6));
  EXPECT_THAT(batch.stand_ins, ElementsAre(1u));
}

TEST(ListedBatches, BatchOfBadSamplesIsAnError) {
  DataLoaderOptions options = listed(2, 1);
  options.on_bad_sample = OnBadSample::skip;
  add(options, {2, 2});
  auto dataset = std::make_shared<TestSet>(10);
  dataset->on_read = [](std::size_t index) {
    if (index == 2) throw Error("gone");
  };
  DataLoader loader(dataset, no_transforms(), options);
  EXPECT_THAT(message_of_next(loader), HasSubstr("batch 0: 2 samples in a row are bad"));
}

TEST(ListedBatches, DestructorStopsWorkersThatWaitForBatches) {
  const DataLoaderOptions options = listed(2, 3);
  add(options, {1});
  const DataLoader loader(std::make_shared<TestSet>(10), no_transforms(), options);
}

TEST(ListedBatches, ReadingAheadAndCutsAreRefused) {
  DataLoaderOptions options = listed(2);
  options.read_ahead.reads = 2;
  options.cut = HostCut{"read", 2};
  const std::string refused = refusal(std::make_shared<TestSet>(10), no_transforms(), options);
  EXPECT_THAT(refused, HasSubstr("reading ahead needs an order that is known in advance"));
  EXPECT_THAT(refused, HasSubstr("a cut needs an order that is known in advance"));
}

}  // namespace
}  // namespace slipstream
