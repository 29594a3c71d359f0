#include "core/lane_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "core/patience.h"

namespace slipstream {
namespace {

using test::Counter;
using Jobs = std::vector<std::function<void()>>;

std::vector<std::thread::id> thread_ids(LaneThreads& threads, std::size_t count) {
  std::vector<std::thread::id> ids(count);
  Jobs jobs;
  for (auto& id : ids) jobs.emplace_back([&id] { id = std::this_thread::get_id(); });
  threads.run(std::move(jobs));
  return ids;
}

TEST(LaneThreads, JobKUsesTheSameThreadInEveryRun) {
  LaneThreads threads;
  EXPECT_EQ(threads.size(), 0u);
  const auto first = thread_ids(threads, 2);
  EXPECT_EQ(threads.size(), 2u);
  const auto more = thread_ids(threads, 4);
  const auto fewer = thread_ids(threads, 1);
  EXPECT_EQ(threads.size(), 4u);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), more.begin()));
  EXPECT_EQ(fewer.front(), first.front());
  std::set<std::thread::id> different(more.begin(), more.end());
  different.insert(std::this_thread::get_id());
  EXPECT_EQ(different.size(), 5u);
}

TEST(LaneThreads, JobsRunConcurrently) {
  LaneThreads threads;
  Counter here;
  std::atomic<int> met = 0;
  Jobs jobs(3, [&] {
    here.add();
    try {
      here.await(3, "the other jobs");
      ++met;
    } catch (const test::TimedOut&) {
    }
  });
  threads.run(std::move(jobs));
  EXPECT_EQ(met, 3);
}

TEST(LaneThreads, CallerPollsWhileJobsRun) {
  LaneThreads threads;
  Counter polls;
  std::atomic<int> seen = 0;
  const std::thread::id here = std::this_thread::get_id();
  std::atomic<bool> is_by_the_caller = true;
  const Jobs jobs(2, [&] {
    try {
      polls.await(polls.value() + 2, "looks");
      ++seen;
    } catch (const test::TimedOut&) {
    }
  });
  {
    const LaneThreads::PollScope poll_scope(threads, [&] {
      is_by_the_caller = is_by_the_caller && std::this_thread::get_id() == here;
      polls.add();
    });
    threads.run(jobs);
    threads.run(jobs);
  }
  EXPECT_EQ(seen, 4);
  EXPECT_TRUE(is_by_the_caller);
  const auto before = polls.value();
  threads.run({[] {}});
  EXPECT_EQ(polls.value(), before);
}

TEST(LaneThreads, RunWithoutJobsStartsNoThread) {
  LaneThreads threads;
  threads.run({});
  EXPECT_EQ(threads.size(), 0u);
}

TEST(LaneThreads, ManyRunsLoseNoJob) {
  LaneThreads threads;
  std::vector<int> counts(3, 0);
  for (int run = 0; run < 500; ++run) {
    Jobs jobs;
    for (int& count : counts) jobs.emplace_back([&count] { ++count; });
    threads.run(std::move(jobs));
  }
  EXPECT_EQ(counts, std::vector<int>(3, 500));
}

TEST(LaneThreads, JobsAreDestroyedBeforeRunReturns) {
  LaneThreads threads;
  for (int run = 0; run < 200; ++run) {
    auto held = std::make_shared<int>(run);
    threads.run({[held] {}, [held] {}});
    ASSERT_EQ(held.use_count(), 1);
  }
}

struct AtThreadEnd {
  std::atomic<int>* ended = nullptr;
  ~AtThreadEnd() {
    if (ended != nullptr) ++*ended;
  }
};

TEST(LaneThreads, DestructorJoinsThreads) {
  std::atomic<int> ended = 0;
  {
    LaneThreads threads;
    threads.run(Jobs(2, [&ended] {
      thread_local AtThreadEnd at_end;
      at_end.ended = &ended;
    }));
    EXPECT_EQ(ended, 0);
  }
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace slipstream
