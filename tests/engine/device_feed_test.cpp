#include "engine/device_feed.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>

#include <atomic>
#include <new>
#include <optional>
#include <stdexcept>

#include "loader/loader_fixture.h"
#include "slipstream/core/error.h"
#include "slipstream/engine/context.h"

namespace slipstream::test {
namespace {

constexpr std::size_t kSamples = 12;  // three batches per epoch

DataLoaderOptions feed_options() { return {{.batch_size = 4, .shuffle = false}, {}}; }

std::shared_ptr<const Dataset> numbers(std::function<void(std::size_t)> on_read = {}) {
  const auto dataset = std::make_shared<TestSet>(kSamples);
  dataset->on_read = std::move(on_read);
  return dataset;
}

/// A host lane that counts how often its marks are recorded and waited for.
class WatchedLane final : public Lane {
 public:
  struct WatchedMark final : Mark {
    explicit WatchedMark(WatchedLane& maker) : lane(maker) {}
    bool reached() const override { return true; }
    void synchronize() const override { ++lane.synchronized; }
    double seconds_after(const Mark&) const override { return 0; }
    WatchedLane& lane;
  };

  WatchedLane() : Lane("watched") {}
  std::unique_ptr<Mark> make_mark() override { return std::make_unique<WatchedMark>(*this); }
  void record(Mark&) override { ++recorded; }
  void wait(const Mark&) override {}
  void synchronize() override {}

  std::size_t recorded = 0;
  std::atomic<std::size_t> synchronized = 0;
};

/// Memory that records how many marks had been waited for when it was first freed.
class WatchedMemory final : public std::pmr::memory_resource {
 public:
  explicit WatchedMemory(const WatchedLane& lane) : lane_(lane) {}
  std::optional<std::size_t> synchronized_at_free() const { return at_free_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    return std::pmr::get_default_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* pointer, std::size_t bytes, std::size_t alignment) override {
    if (!at_free_) at_free_ = lane_.synchronized;
    std::pmr::get_default_resource()->deallocate(pointer, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  const WatchedLane& lane_;
  std::optional<std::size_t> at_free_;
};

/// Replaces PyTorch's allocator of host memory by one that always fails.
class NoMemoryScope final : public c10::Allocator {
 public:
  NoMemoryScope() { c10::SetCPUAllocator(this, kPriority); }
  ~NoMemoryScope() override { c10::SetCPUAllocator(before_, kPriority); }
  NoMemoryScope(const NoMemoryScope&) = delete;
  NoMemoryScope& operator=(const NoMemoryScope&) = delete;
  c10::DataPtr allocate(std::size_t) override { throw std::bad_alloc(); }
  void copy_data(void*, const void*, std::size_t) const override {}

 private:
  static constexpr std::uint8_t kPriority = 1;
  c10::Allocator* const before_ = c10::GetCPUAllocator();
};

class DeviceFeedTest : public ::testing::Test {
 protected:
  /// Copies the next batch; returns the label of its first sample, which is the sample's number.
  int next_value() {
    DeviceSlab slab;
    feed_.copy(feed_.take(), slab, lane_);
    return slab.fields.back().second.data_ptr<std::uint8_t>()[0];
  }

  Context context_{"cpu"};
  DeviceFeed feed_{context_};
  WatchedLane lane_;
};

TEST_F(DeviceFeedTest, SeekToCurrentPositionKeepsTheLoader) {
  const auto dataset = numbers();
  DataLoaderOptions options = feed_options();
  feed_.seek(dataset, {}, options, lane_);
  const DataLoader* const loader = feed_.loader();
  EXPECT_EQ(next_value(), 0);
  options.first_batch = 1;
  const DeviceFeed::Counted before = feed_.seek(dataset, {}, options, lane_);
  EXPECT_EQ(feed_.loader(), loader);
  EXPECT_GE(before.counters.front().calls, options.batch_size)
      << "the counts until now are returned";
  EXPECT_EQ(next_value(), 4);
}

TEST_F(DeviceFeedTest, SeekElsewhereOrWithOtherOptionsStartsANewLoader) {
  const auto dataset = numbers();
  DataLoaderOptions options = feed_options();
  feed_.seek(dataset, {}, options, lane_);
  EXPECT_EQ(next_value(), 0);
  options.first_batch = 2;
  EXPECT_FALSE(feed_.is_at(options));
  EXPECT_EQ(feed_.seek(dataset, {}, options, lane_).counters.front().calls, 0U);
  EXPECT_EQ(next_value(), 8);
  options.first_batch = 3;
  EXPECT_TRUE(feed_.is_at(options));
  options.num_workers = 2;
  EXPECT_FALSE(feed_.is_at(options));
  feed_.seek(dataset, {}, options, lane_);
  EXPECT_EQ(next_value(), 0) << "first batch of the second epoch";
}

TEST_F(DeviceFeedTest, LoaderWithACutAcceptsFirstAndNextPosition) {
  DataLoaderOptions options = feed_options();
  options.cut = HostCut{"collate", 2};
  feed_.seek(numbers(), {}, options, lane_);
  for (const int value : {0, 4, 0}) EXPECT_EQ(next_value(), value);
  EXPECT_TRUE(feed_.is_at(options));
  options.first_batch = 3;
  EXPECT_TRUE(feed_.is_at(options));
  options.first_batch = 2;
  EXPECT_FALSE(feed_.is_at(options));
}

TEST_F(DeviceFeedTest, SeekAfterAFailedBatchStartsANewLoader) {
  const auto dataset = numbers([failed = std::make_shared<bool>(false)](std::size_t index) {
    if (index == 2 && !std::exchange(*failed, true)) throw std::runtime_error("lost");
  });
  DataLoaderOptions options = feed_options();
  feed_.seek(dataset, {}, options, lane_);
  EXPECT_THROW(feed_.take(), Error);
  EXPECT_TRUE(feed_.has_failed());
  options.first_batch = 1;
  EXPECT_FALSE(feed_.is_at(options));
  feed_.seek(dataset, {}, options, lane_);
  EXPECT_EQ(next_value(), 4);
}

TEST_F(DeviceFeedTest, SlabMemoryIsFreedAfterTheCopysMarks) {
  WatchedMemory memory(lane_);
  DataLoaderOptions options = feed_options();
  options.memory = &memory;
  options.cut = HostCut{"collate", 2};  // no worker refills a slab, which would wait for its mark
  feed_.seek(numbers(), {}, options, lane_);
  next_value();
  next_value();
  EXPECT_EQ(lane_.synchronized, 0U);
  feed_.stop();
  EXPECT_EQ(memory.synchronized_at_free(), 2U);
  EXPECT_EQ(feed_.loader(), nullptr);
}

TEST_F(DeviceFeedTest, BatchIsReleasedIfItsCopyThrows) {
  feed_.seek(numbers(), {}, feed_options(), lane_);
  for (std::size_t batch = 0; batch < 10; ++batch) {
    const HostBatch taken = feed_.take();
    const NoMemoryScope none;
    DeviceSlab slab;
    EXPECT_THROW(feed_.copy(taken, slab, lane_), std::bad_alloc);
  }
  EXPECT_EQ(lane_.recorded, 10U) << "work enqueued before the error may still read the slab";
  EXPECT_EQ(next_value(), 4) << "batch 10";
}

TEST_F(DeviceFeedTest, SlabsAreRefilledAfterTheCopysMarks) {
  feed_.seek(numbers(), {}, feed_options(), lane_);
  for (int batch = 0; batch < 30; ++batch) EXPECT_EQ(next_value(), batch % 3 * 4);
  EXPECT_EQ(lane_.recorded, 30U);
  EXPECT_GE(lane_.synchronized, 30 - feed_.loader()->slabs());
}

}  // namespace
}  // namespace slipstream::test
