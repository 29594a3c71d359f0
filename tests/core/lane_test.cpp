#include "slipstream/core/lane.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/fake_lane.h"

namespace slipstream {
namespace {

using test::Counter;
using test::FakeLane;

TEST(HostLane, RecordedMarkIsReachedImmediately) {
  HostLane lane("decode");
  EXPECT_EQ(lane.name(), "decode");
  const auto first = lane.make_mark();
  const auto second = lane.make_mark();
  lane.record(*first);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  lane.record(*second);
  EXPECT_TRUE(first->reached());
  first->synchronize();
  EXPECT_GE(second->seconds_after(*first), 0.002);
  EXPECT_LE(first->seconds_after(*second), -0.002);
}

TEST(HostLane, RecordingAgainUpdatesTheMark) {
  HostLane lane("decode");
  const auto first = lane.make_mark();
  const auto second = lane.make_mark();
  lane.record(*first);
  lane.record(*second);
  lane.record(*first);
  EXPECT_GE(first->seconds_after(*second), 0);
}

TEST(HostLane, MarkOfAnotherLaneTypeThrows) {
  HostLane host("host");
  FakeLane fake("fake");
  const auto foreign = fake.make_mark();
  const auto own = host.make_mark();
  EXPECT_THROW(host.record(*foreign), std::logic_error);
  host.record(*own);
  EXPECT_THROW(own->seconds_after(*foreign), std::logic_error);
}

TEST(HostLane, WaitBlocksTheThreadUntilTheMarkIsReached) {
  FakeLane stream("stream");
  HostLane host("host");
  const auto mark = stream.make_mark();
  Counter allowed;
  bool done = false;
  stream.enqueue([&] {
    allowed.await(1, "the host to be blocked");
    done = true;
  });
  stream.record(*mark);
  EXPECT_FALSE(mark->reached());
  std::jthread helper([&] {
    test::eventually("the host to block", [&] { return stream.blocked_hosts() == 1; });
    allowed.add();
  });
  host.wait(*mark);
  EXPECT_TRUE(done);
}

// FakeLane is tested as well: other tests would not notice an error in it.

TEST(FakeLane, WaitOrdersTwoLanesWithoutBlockingTheHost) {
  FakeLane writer("writer"), reader("reader");
  const auto written = writer.make_mark();
  Counter allowed;
  int value = 0, seen = 0;
  writer.enqueue([&] {
    allowed.await(1, "the host to have enqueued everything");
    value = 7;
  });
  writer.record(*written);
  reader.wait(*written);
  reader.enqueue([&] { seen = value; });
  allowed.add();
  reader.synchronize();
  EXPECT_EQ(seen, 7);
}

TEST(FakeLane, WaitBindsToTheLastRecording) {
  FakeLane writer("writer"), reader("reader");
  const auto mark = writer.make_mark();
  EXPECT_THROW(reader.wait(*mark), std::logic_error);
  Counter allowed;
  writer.record(*mark);
  reader.wait(*mark);
  writer.enqueue([&] { allowed.await(1, "the reader, which waits only for the first recording"); });
  writer.record(*mark);
  reader.synchronize();
  EXPECT_FALSE(mark->reached());
  allowed.add();
  mark->synchronize();
  EXPECT_TRUE(mark->reached());
}

TEST(FakeLane, FailedWorkThrowsDeviceLostOnSynchronize) {
  FakeLane lane("lane");
  const auto mark = lane.make_mark();
  bool ran = false;
  lane.enqueue([] { throw Error("device-side assertion"); });
  lane.enqueue([&] { ran = true; });
  lane.record(*mark);
  EXPECT_THROW(mark->synchronize(), DeviceLost);
  EXPECT_THROW(lane.synchronize(), DeviceLost);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace slipstream
