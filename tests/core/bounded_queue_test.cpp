#include "core/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "core/patience.h"

namespace slipstream {
namespace {

using test::Counter;

TEST(BoundedQueue, FirstInFirstOut) {
  BoundedQueue<std::unique_ptr<int>> queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.push(std::make_unique<int>(i)));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(**queue.pop(), i);
}

TEST(BoundedQueue, ZeroCapacityThrows) { EXPECT_THROW(BoundedQueue<int>(0), std::logic_error); }

TEST(BoundedQueue, ProducerBlocksWhileQueueIsFull) {
  BoundedQueue<int> queue(2);
  std::atomic<int> taken = 0;
  std::atomic<bool> too_far = false;
  Counter pushed;
  std::jthread producer([&] {
    for (int i = 0; i < 200; ++i) {
      queue.push(i);
      // One more than the capacity: an item may have been popped and not yet counted here.
      if (i + 1 > taken + 2 + 1) too_far = true;
      pushed.add();
    }
  });
  pushed.await(2, "a full queue");
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(queue.pop(), i);
    ++taken;
  }
  EXPECT_FALSE(too_far);
}

TEST(BoundedQueue, ClosedQueueRefusesPushAndPopsRemainingItems) {
  BoundedQueue<int> queue(4);
  queue.push(1);
  queue.push(2);
  queue.close();
  queue.close();
  EXPECT_FALSE(queue.push(3));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, CloseWakesBlockedProducersAndConsumers) {
  BoundedQueue<int> full(1), empty(1);
  full.push(0);
  std::atomic<int> woken = 0;
  {
    std::vector<std::jthread> blocked;
    for (int i = 0; i < 2; ++i) {
      blocked.emplace_back([&] { woken += full.push(1) ? 0 : 1; });
      blocked.emplace_back([&] { woken += empty.pop() ? 0 : 1; });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    full.close();
    empty.close();
  }
  EXPECT_EQ(woken, 4);
}

TEST(BoundedQueue, ManyProducersAndConsumersLoseNothing) {
  constexpr int kEach = 2000;
  BoundedQueue<int> queue(3);
  std::atomic<std::int64_t> sum = 0, count = 0;
  {
    std::vector<std::jthread> consumers;
    for (int i = 0; i < 3; ++i) {
      consumers.emplace_back([&] {
        while (const auto item = queue.pop()) {
          sum += *item;
          ++count;
        }
      });
    }
    {
      std::vector<std::jthread> producers;
      for (int i = 0; i < 3; ++i) {
        producers.emplace_back([&] {
          for (int item = 1; item <= kEach; ++item) queue.push(item);
        });
      }
    }
    queue.close();
  }
  EXPECT_EQ(count, 3 * kEach);
  EXPECT_EQ(sum, 3ll * kEach * (kEach + 1) / 2);
}

}  // namespace
}  // namespace slipstream
