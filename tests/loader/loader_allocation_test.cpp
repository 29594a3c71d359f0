#include <gtest/gtest.h>

#include <barrier>

#include "core/trace.h"
#include "loader/allocation_counter.h"
#include "loader/jpeg_slot.h"
#include "loader/loader_fixture.h"
#include "slipstream/transforms/transforms.h"
#include "support/jpeg_writer.h"
#include "support/made_set.h"

namespace slipstream {
namespace {

constexpr unsigned kWorkers = 3;

// Each worker handles this number of samples before the count begins: it rotates through several
// arrays, and all of them must have grown.
constexpr int kWarmUp = 8;

/// Returns the number of allocations in 500 batches, after the workers' arrays have grown.
std::size_t count_allocations(DataLoaderOptions options) {
  std::barrier together(kWorkers);
  const auto dataset = std::make_shared<TestSet>(64);
  dataset->on_read = [&](std::size_t) {
    thread_local int reads = 0;
    if (reads++ < kWarmUp) together.arrive_and_wait();
  };
  options.batch_size = 4;
  options.num_workers = kWorkers;
  DataLoader loader(dataset, two_transforms(), options);
  const auto walk = [&](int batches) {
    for (int i = 0; i < batches; ++i) loader.release(loader.next(), nullptr);
  };
  walk(32);
  const std::size_t before = allocations();
  walk(500);
  return allocations() - before;
}

TEST(LoaderAllocation, SteadyStateAllocatesNothing) { EXPECT_EQ(count_allocations({}), 0U); }

TEST(LoaderAllocation, TracingAllocatesNothingEvenWithAFullRow) {
  for (const std::size_t events : {1 << 16, 10})
    EXPECT_EQ(
        count_allocations(with(
            &DataLoaderOptions::trace,
            std::make_shared<TraceRecorder>(TraceRecorder::Options{.events_per_row = events}), {})),
        0U);
}

TEST(LoaderAllocation, WarmOrFullCacheAllocatesNothing) {
  for (const std::size_t bytes : {1 << 20, 2000}) {
    EXPECT_EQ(count_allocations({{}, {.cache = CacheOptions{"read", bytes}}}), 0U);
    EXPECT_EQ(count_allocations({{}, {.cache = CacheOptions{"decode", bytes}}}), 0U);
  }
}

TEST(LoaderAllocation, SteadyStateAfterACutAllocatesNothing) {
  DataLoader loader(std::make_shared<TestSet>(64), two_transforms(),
                    with(&DataLoaderOptions::cut, HostCut{"decode", 16},
                         {{.batch_size = 4}, {.num_workers = 1}}));
  const auto walk = [&](int batches) {
    for (int i = 0; i < batches; ++i) loader.release(loader.next(), nullptr);
  };
  walk(32);
  const std::size_t before = allocations();
  walk(500);
  EXPECT_EQ(allocations() - before, 0u);
}

TEST(LoaderAllocation, SteadyStateWithReadAheadAllocatesNothing) {
  std::barrier together(kWorkers);
  const auto dataset = std::make_shared<TestSet>(64);
  dataset->on_decode = [&](std::size_t) {
    thread_local int decoded = 0;
    if (decoded++ < kWarmUp) together.arrive_and_wait();
  };
  DataLoader loader(dataset, two_transforms(),
                    {{.batch_size = 4}, {.num_workers = kWorkers, .read_ahead = {.reads = 5}}});
  const auto walk = [&](int batches) {
    for (int i = 0; i < batches; ++i) loader.release(loader.next(), nullptr);
  };
  walk(32);
  const std::size_t before = allocations();
  walk(500);
  EXPECT_EQ(allocations() - before, 0u);
}

TEST(LoaderAllocation, SteadyStateWithJpegWireAllocatesNothing) {
  const std::vector<Bytes> files(64, write_jpeg({}, 40, 60, noisy_levels(40, 60, 3)));
  DataLoader loader(set_of_files(files),
                    {{"crop", RandomResizedCrop{16}}, {"flip", RandomHorizontalFlip{}}},
                    {{.batch_size = 4}, {.num_workers = 1, .wire = {{"image", Wire::jpeg}}}});
  const auto walk = [&](int batches) {
    for (int i = 0; i < batches; ++i) loader.release(loader.next(), nullptr);
  };
  walk(32);
  const std::size_t before = allocations();
  walk(500);
  EXPECT_EQ(allocations() - before, 0u);
  const HostBatch batch = loader.next();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(jpeg_slot(loader.layout().field("image"), batch.data, i).holds,
              JpegSlot::Holds::file);
  }
}

TEST(LoaderAllocation, CounterCountsAllocations) {
  const std::size_t before = allocations();
  const auto block = std::make_unique<Bytes>(100);
  EXPECT_GE(allocations() - before, 2u);
}

}  // namespace
}  // namespace slipstream
