#include "core/start_thread.h"

#include <gmock/gmock.h>

#include "core/lane_threads.h"
#include "core/parallel_for.h"
#include "support/no_threads.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

const auto kTold =
    testing::AllOf(testing::StartsWith("Error: cannot start a thread: "),
                   testing::HasSubstr("fewer workers"), testing::HasSubstr("ulimit"));

TEST(StartThread, DoesTheWork) {
  bool is_done = false;
  start_thread([&] { is_done = true; }).join();
  EXPECT_TRUE(is_done);
}

TEST(StartThread, WhereNoneCanBeStartedSaysWhatToDo) {
  const NoThreads none;
  EXPECT_THAT(thrown_by([] { start_thread([] {}); }), kTold);
}

TEST(StartThread, WhatNeedsThreadsSaysSoToo) {
  require_threads(3);
  LaneThreads lanes;
  int done = 0;
  const auto work = [&done]() -> ItemWork { return [&done](std::size_t) { return ++done > 0; }; };
  {
    const NoThreads none;
    EXPECT_THAT(thrown_by([&] { lanes.run({[&] { ++done; }}); }), kTold);
    EXPECT_THAT(thrown_by([&] { parallel_for(4, 2, work); }), kTold);
    EXPECT_THAT(thrown_by([] { require_threads(3); }), kTold);
  }
  EXPECT_EQ(done, 0);
  lanes.run({[&] { ++done; }});
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace slipstream
