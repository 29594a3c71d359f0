#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "core/failing_memory.h"
#include "core/lane_threads.h"

namespace slipstream::test {
namespace {

constexpr int kJobs = 3;

class LaneThreadsMemoryTest : public ::testing::TestWithParam<bool> {
 protected:
  std::vector<std::function<void()>> jobs() {
    return {kJobs, [this] { ++ran_; }};
  }

  /// Returns true if run() succeeds with this number of allocations. All threads have ended
  /// afterwards.
  bool runs_with(std::int64_t allocations) {
    ran_ = 0;
    std::optional<LaneThreads> threads(std::in_place);
    if (GetParam()) threads->run(std::vector<std::function<void()>>(kJobs, [] {}));
    auto work = jobs();
    bool has_run = true;
    try {
      const MemoryEnds ends(allocations);
      threads->run(std::move(work));
    } catch (const std::bad_alloc&) {
      has_run = false;
    }
    threads.reset();
    return has_run;
  }

  std::atomic<int> ran_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Threads, LaneThreadsMemoryTest, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "existing" : "notStarted"; });

TEST_P(LaneThreadsMemoryTest, OutOfMemoryRunsEveryJobOrNone) {
  std::int64_t enough = 0;
  while (!runs_with(enough)) {
    EXPECT_EQ(ran_, 0) << "with " << enough << " allocations";
    ASSERT_LT(++enough, 1000);
  }
  EXPECT_EQ(ran_, kJobs);
  EXPECT_EQ(enough > 0, !GetParam()) << "existing threads need no memory for a job";
}

}  // namespace
}  // namespace slipstream::test
