#include "core/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/sync.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

constexpr std::size_t kItems = 200;

/// Returns a function that gives every thread the same work.
std::function<ItemWork()> same_for_all_threads(ItemWork work) {
  return [work = std::move(work)] { return work; };
}

TEST(ParallelFor, RunsEveryItemOnce) {
  for (const unsigned threads : {0U, 1U, 3U, 1000U}) {
    std::vector<std::atomic<int>> done(kItems);
    parallel_for(kItems, threads, same_for_all_threads([&](std::size_t item) {
                   ++done[item];
                   return true;
                 }));
    for (std::size_t i = 0; i < kItems; ++i) EXPECT_EQ(done[i], 1) << i;
  }
}

TEST(ParallelFor, UsesRequestedThreadsButNoMoreThanItems) {
  for (const std::size_t items : {2U, 4U}) {
    Mutex mutex;
    std::set<std::thread::id> threads;
    std::atomic<int> made = 0;
    std::latch all_there(static_cast<std::ptrdiff_t>(items));
    parallel_for(items, 4, [&]() -> ItemWork {
      ++made;
      return [&](std::size_t) {
        all_there.arrive_and_wait();
        const Lock lock(mutex);
        threads.insert(std::this_thread::get_id());
        return true;
      };
    });
    EXPECT_EQ(threads.size(), items);
    EXPECT_EQ(made, static_cast<int>(items));
    EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
  }
}

TEST(ParallelFor, ZeroItemsCreateNoWork) {
  parallel_for(0, 4, []() -> ItemWork { throw std::runtime_error("made for nothing"); });
}

TEST(ParallelFor, ErrorOfTheLowestItemIsRethrown) {
  std::latch later_failed(1);
  std::atomic<std::size_t> done = 0;
  EXPECT_EQ(thrown_by([&] {
              parallel_for(kItems, 2, same_for_all_threads([&](std::size_t item) -> bool {
                             ++done;
                             if (item == 5) {
                               later_failed.wait();
                               throw Error("5");
                             }
                             if (item == 6) {
                               later_failed.count_down();
                               throw Error("6");
                             }
                             return true;
                           }));
            }),
            "Error: 5");
  EXPECT_EQ(done, 7U) << "no item starts after an error";
}

TEST(ParallelFor, ReturningFalseStartsNoMoreItems) {
  std::size_t done = 0;
  parallel_for(kItems, 1, same_for_all_threads([&](std::size_t item) {
                 ++done;
                 return item < 9;
               }));
  EXPECT_EQ(done, 10U);
}

TEST(ParallelFor, ErrorWhileCreatingWorkIsRethrown) {
  EXPECT_EQ(thrown_by([] {
              parallel_for(kItems, 3, []() -> ItemWork { throw Error("no memory for buffers"); });
            }),
            "Error: no memory for buffers");
}

}  // namespace
}  // namespace slipstream
