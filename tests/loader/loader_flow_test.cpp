#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "core/patience.h"
#include "loader/loader_fixture.h"

namespace slipstream {
namespace {

/// A mark that the test can make reached.
class TestMark final : public Mark {
 public:
  bool reached() const override { return gate.is_open(); }
  void synchronize() const override {
    waits.raise();
    gate.wait();
    if (lost) throw DeviceLost("the device is gone");
  }
  double seconds_after(const Mark&) const override { return 0; }

  Gate gate;
  mutable WaitableCounter waits;
  bool lost = false;
};

TEST(LoaderFlow, WorkersNeverReadMoreThanTheSlabsHold) {
  constexpr std::size_t kBatch = 3;
  constexpr std::size_t kSlabs = 4;
  const auto dataset = std::make_shared<TestSet>(12);
  std::atomic<std::size_t> released{0};
  std::atomic<bool> exceeded{false};
  dataset->on_read = [&](std::size_t) {
    const std::size_t reads = dataset->reads.count();
    if (reads > (kSlabs + released.load()) * kBatch) exceeded = true;
  };
  DataLoader loader(dataset, no_transforms(),
                    with(&DataLoaderOptions::held_batches, 2,
                         {{.batch_size = kBatch}, {.num_workers = 4, .prefetch_batches = 2}}));
  EXPECT_EQ(loader.slabs(), kSlabs);
  for (std::size_t i = 0; i < 30; ++i) {
    dataset->reads.wait_for((kSlabs + i) * kBatch);
    if (i % 10 == 0) give_time();
    const HostBatch batch = loader.next();
    EXPECT_EQ(dataset->reads.count(), (kSlabs + i) * kBatch);
    ++released;
    loader.release(batch, nullptr);
  }
  EXPECT_FALSE(exceeded);
}

TEST(LoaderFlow, BlockedTimeIsPositiveOnlyIfNoBatchWasFilled) {
  const auto dataset = std::make_shared<TestSet>(12);
  dataset->on_read = [](std::size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  DataLoader loader(dataset, no_transforms(),
                    with(&DataLoaderOptions::held_batches, 1,
                         {{.batch_size = 2}, {.num_workers = 2, .prefetch_batches = 3}}));
  double blocked_s = 0;
  bool has_waited = false;
  // A caller that is slower than the workers gets filled batches and does not wait; so the test
  // tries until it has to wait.
  test::eventually("a batch that is waited for", [&] {
    const HostBatch batch = loader.next();
    EXPECT_EQ(batch.filled == 0, batch.blocked_s > 0);
    EXPECT_EQ(loader.blocked_s(), blocked_s += batch.blocked_s);
    has_waited = batch.filled == 0;
    loader.release(batch, nullptr);
    return has_waited;
  });
  EXPECT_TRUE(has_waited);
}

TEST(LoaderFlow, BatchReportsHowManyBatchesWereFilled) {
  std::vector<std::size_t> filled;
  test::eventually("all batches but the held one are filled when the next is taken", [&] {
    DataLoader loader(std::make_shared<TestSet>(12), no_transforms(),
                      with(&DataLoaderOptions::held_batches, 1,
                           {{.batch_size = 2}, {.num_workers = 2, .prefetch_batches = 3}}));
    const HostBatch held = loader.next();
    // four slabs of two samples
    while (loader.counters().back().calls < 8) std::this_thread::yield();
    give_time();
    loader.release(held, nullptr);
    const HostBatch next = loader.next();
    filled.push_back(next.filled);
    EXPECT_EQ(next.blocked_s > 0, next.filled == 0);
    return next.filled >= 3;  // fewer if a worker has not yet handed over the batch that it filled
  });
  EXPECT_THAT(filled, testing::Each(testing::Le(4U)));
}

TEST(LoaderFlow, LapsHoldTheTimesOfTheLastSamples) {
  static constexpr double kSlowS = 0.03;
  const auto dataset = std::make_shared<TestSet>(4096);
  std::atomic<std::size_t> reads{0};
  dataset->on_read = [&](std::size_t) {
    if (++reads == 2000) std::this_thread::sleep_for(std::chrono::duration<double>(kSlowS));
  };
  DataLoader loader(dataset, no_transforms(),
                    {{.batch_size = 2}, {.num_workers = 1, .prefetch_batches = 1}});
  take(loader, 200);
  const auto early = loader.laps();
  EXPECT_EQ(early.front().name, "read");
  EXPECT_GE(early.front().wall_s.size(), 400U);
  EXPECT_LT(early.front().wall_s.size(), kKeptLaps);
  take(loader, 900);
  const auto laps = loader.laps();
  ASSERT_EQ(laps.size(), loader.counters().size());
  for (const StepLaps& step : laps) {
    EXPECT_EQ(step.wall_s.size(), kKeptLaps) << step.name;
    EXPECT_EQ(step.cpu_s.size(), kKeptLaps) << step.name;
  }
  // The slow sample is not one of the first kKeptLaps samples, so it is found only if the laps of
  // the last samples are kept.
  const auto slow = std::ranges::max_element(laps.front().wall_s) - laps.front().wall_s.begin();
  const auto at = static_cast<std::size_t>(slow);
  EXPECT_GE(laps.front().wall_s[at], 0.99 * kSlowS);
  EXPECT_LT(laps.front().cpu_s[at], laps.front().wall_s[at] / 2) << "sleeping uses no CPU time";
}

TEST(LoaderFlow, HeldBatchIsNotOverwritten) {
  const auto dataset = std::make_shared<TestSet>(12);
  DataLoader loader(dataset, no_transforms(),
                    with(&DataLoaderOptions::held_batches, 2,
                         {{.batch_size = 2}, {.num_workers = 4, .prefetch_batches = 1}}));
  const HostBatch kept = loader.next();
  const Bytes before = copy_slab_bytes(loader, kept);
  take(loader, 20);
  EXPECT_EQ(copy_slab_bytes(loader, kept), before);
  loader.release(kept, nullptr);
  take(loader, 4);
}

TEST(LoaderFlow, SlabIsNotRefilledBeforeItsMarkIsReached) {
  const auto dataset = std::make_shared<TestSet>(12);
  TestMark mark;
  std::atomic<bool> too_early{false};
  dataset->on_read = [&](std::size_t) {
    if (dataset->reads.count() > 4 && !mark.reached()) too_early = true;
  };
  DataLoader loader(dataset, no_transforms(),
                    with(&DataLoaderOptions::held_batches, 1,
                         {{.batch_size = 2}, {.num_workers = 4, .prefetch_batches = 1}}));
  const HostBatch first = loader.next();
  const Bytes before = copy_slab_bytes(loader, first);
  loader.release(first, &mark);
  mark.waits.wait_for(1);
  loader.release(loader.next(), nullptr);
  give_time();
  EXPECT_FALSE(loader.ready());
  EXPECT_EQ(dataset->reads.count(), 4u);
  EXPECT_EQ(copy_slab_bytes(loader, first), before);
  mark.gate.open();
  const HostBatch third = loader.next();
  EXPECT_EQ(third.number, 2u);
  EXPECT_EQ(third.slab, first.slab);
  EXPECT_NE(copy_slab_bytes(loader, third), before);
  EXPECT_EQ(mark.waits.count(), 1u);
  EXPECT_FALSE(too_early);
}

TEST(LoaderFlow, SlabWithReachedMarkIsReused) {
  TestMark mark;
  mark.gate.open();
  DataLoader loader(std::make_shared<TestSet>(12), no_transforms(),
                    with(&DataLoaderOptions::held_batches, 1,
                         {{.batch_size = 2}, {.num_workers = 2, .prefetch_batches = 1}}));
  for (std::uint64_t i = 0; i < 40; ++i) {
    const HostBatch batch = loader.next();
    EXPECT_EQ(batch.number, i);
    loader.release(batch, &mark);
  }
}

TEST(LoaderFlow, DeviceLostIsThrownByNext) {
  TestMark mark;
  mark.lost = true;
  mark.gate.open();
  DataLoader loader(std::make_shared<TestSet>(12), no_transforms(),
                    with(&DataLoaderOptions::held_batches, 1,
                         {{.batch_size = 2}, {.num_workers = 2, .prefetch_batches = 1}}));
  loader.release(loader.next(), &mark);
  loader.release(loader.next(), nullptr);
  EXPECT_THROW(loader.next(), DeviceLost);
  EXPECT_THROW(loader.next(), DeviceLost);
}

TEST(LoaderFlow, SlabsMayBeReleasedInAnyOrder) {
  const auto run = [](bool reversed) {
    DataLoader loader(std::make_shared<TestSet>(12), two_transforms(),
                      with(&DataLoaderOptions::held_batches, 3,
                           {{.batch_size = 2}, {.num_workers = 3, .prefetch_batches = 1}}));
    std::vector<Bytes> taken;
    for (int round = 0; round < 8; ++round) {
      std::vector<HostBatch> held = {loader.next(), loader.next(), loader.next()};
      for (const HostBatch& batch : held) taken.push_back(copy_slab_bytes(loader, batch));
      if (reversed) std::swap(held.front(), held.back());
      for (const HostBatch& batch : held) loader.release(batch, nullptr);
    }
    return taken;
  };
  EXPECT_EQ(run(false), run(true));
}

TEST(LoaderFlow, ReadyIsTrueOnlyIfNextDoesNotBlock) {
  const auto dataset = std::make_shared<TestSet>(4);
  Gate gate;
  dataset->on_read = [&](std::size_t) { gate.wait(); };
  DataLoader loader(dataset, no_transforms(), {{.batch_size = 2}, {.num_workers = 2}});
  EXPECT_FALSE(loader.ready());
  gate.open();
  while (!loader.ready()) std::this_thread::yield();
  EXPECT_EQ(loader.next().number, 0u);
}

TEST(LoaderFlow, HoldingTooManyBatchesOrReleasingTwiceThrows) {
  DataLoader loader(std::make_shared<TestSet>(8), no_transforms(),
                    with(&DataLoaderOptions::held_batches, 1, {{.batch_size = 2}, {}}));
  const HostBatch held = loader.next();
  EXPECT_THROW(loader.next(), std::logic_error);
  loader.release(held, nullptr);
  EXPECT_THROW(loader.release(held, nullptr), std::logic_error);
  EXPECT_EQ(loader.next().number, 1u);
}

TEST(LoaderFlow, DestructionWithFullQueuesDoesNotHang) {
  for (int i = 0; i < 20; ++i) {
    const auto dataset = std::make_shared<TestSet>(12);
    DataLoader loader(dataset, no_transforms(), {{.batch_size = 2}, {.num_workers = 4}});
    dataset->reads.wait_for(8);
    if (i % 2 == 0) loader.next();
  }
}

TEST(LoaderFlow, DestructionAfterAnyNumberOfBatchesDoesNotHang) {
  for (std::size_t i = 0; i < 100; ++i) {
    const auto dataset = std::make_shared<TestSet>(12);
    DataLoader loader(dataset, two_transforms(), {{.batch_size = 2}, {.num_workers = 4}});
    take(loader, i % 5);
  }
}

TEST(LoaderFlow, DestructionDuringAReadDoesNotHang) {
  const auto dataset = std::make_shared<TestSet>(1000);
  Gate gate;
  dataset->on_read = [&](std::size_t) { gate.wait(); };
  auto loader = std::make_unique<DataLoader>(dataset, no_transforms(),
                                             DataLoaderOptions{{.batch_size = 500}, {}});
  dataset->reads.wait_for(1);
  std::jthread stop([&] { loader.reset(); });
  gate.open();
}

}  // namespace
}  // namespace slipstream
