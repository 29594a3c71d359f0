#include "core/start_thread.h"

#include <gmock/gmock.h>

#include "core/lane_threads.h"
#include "core/parallel_for.h"
#include "support/no_threads.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

const auto kAdvice =
    testing::AllOf(testing::StartsWith("Error: cannot start a thread: "),
                   testing::HasSubstr("fewer workers"), testing::HasSubstr("ulimit"));

TEST(StartThread, RunsTheFunction) {
  bool is_done = false;
  start_thread([&] { is_done = true; }).join();
  EXPECT_TRUE(is_done);
}

TEST(StartThread, FailureToStartGivesAdvice) {
  const NoThreads none;
  EXPECT_THAT(thrown_by([] { start_thread([] {}); }), kAdvice);
}

TEST(StartThread, ThreadUsersGiveTheSameAdvice) {
  require_threads(3);
  LaneThreads lanes;
  int done = 0;
  const auto work = [&done]() -> ItemWork { return [&done](std::size_t) { return ++done > 0; }; };
  {
    const NoThreads none;
    EXPECT_THAT(thrown_by([&] { lanes.run({[&] { ++done; }}); }), kAdvice);
    EXPECT_THAT(thrown_by([&] { parallel_for(4, 2, work); }), kAdvice);
    EXPECT_THAT(thrown_by([] { require_threads(3); }), kAdvice);
  }
  EXPECT_EQ(done, 0);
  lanes.run({[&] { ++done; }});
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace slipstream
