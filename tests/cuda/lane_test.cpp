#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "core/seconds_since.h"
#include "cuda/device_buffer.h"
#include "cuda/held_stream.h"
#include "gpu.h"

namespace slipstream::cuda {
namespace {

using test::DeviceBuffer;

constexpr std::size_t kBytes = 1 << 20;
constexpr unsigned char kOld = 0x11;
constexpr unsigned char kNew = 0xAB;

using Bytes = std::pmr::vector<unsigned char>;

// Two lanes: after its release, the producer copies kNew to device memory that contains kOld; the
// consumer copies that memory to the host.
struct Handoff {
  Handoff() {
    for (CudaLane* lane : {&producer, &consumer}) {
      // the first launch may block, because kernels are loaded lazily
      delay_async(1, lane->stream());
      copy_async(seen.data(), device.get(), kBytes, lane->stream());
      lane->synchronize();
    }
  }

  void produce_held(unsigned char value) {
    held.reset();
    source.assign(kBytes, value);
    held.emplace(producer.stream());
    produce();
  }
  void produce() {
    copy_async(device.get(), source.data(), kBytes, producer.stream());
    producer.record(*filled);
  }
  void consume() { copy_async(seen.data(), device.get(), kBytes, consumer.stream()); }
  bool consumer_read(unsigned char value) const { return seen == Bytes(kBytes, value); }

  PinnedMemory memory;
  Bytes source = Bytes(kBytes, kNew, &memory);
  Bytes seen = Bytes(kBytes, 0, &memory);
  DeviceBuffer<unsigned char> device{kBytes, kOld};
  CudaLane producer{"producer", 0, 0};
  CudaLane consumer{"consumer", 0, 1};
  std::unique_ptr<Mark> filled = producer.make_mark();
  std::optional<test::HeldStream> held;
};

using LaneTest = test::GpuTest;

TEST_F(LaneTest, WaitMakesConsumerSeeLateProducersData) {
  Handoff handoff;
  handoff.produce_held(kNew);
  handoff.consumer.wait(*handoff.filled);
  handoff.consume();
  EXPECT_TRUE(handoff.held->is_held()) << "a stream wait must not block the host";
  handoff.held->release();
  handoff.consumer.synchronize();
  EXPECT_TRUE(handoff.consumer_read(kNew));
}

// Shows that the test above can fail. Fails under tools that serialize streams.
TEST_F(LaneTest, WithoutWaitConsumerReadsOldData) {
  ASSERT_TRUE(overlap_hindrances().empty()) << overlap_hindrances().front();
  Handoff handoff;
  handoff.produce_held(kNew);
  handoff.consume();
  handoff.consumer.synchronize();
  EXPECT_TRUE(handoff.consumer_read(kOld));
  EXPECT_FALSE(handoff.filled->reached());
  handoff.held->release();
  handoff.producer.synchronize();
}

TEST_F(LaneTest, MarkRecordedAgainFollowsLatestRecording) {
  Handoff handoff;
  handoff.producer.record(*handoff.filled);
  handoff.producer.synchronize();
  EXPECT_TRUE(handoff.filled->reached());

  for (const unsigned char value : {kNew, kOld, kNew}) {
    handoff.produce_held(value);
    EXPECT_FALSE(handoff.filled->reached());
    handoff.consumer.wait(*handoff.filled);
    handoff.consume();
    handoff.held->release();
    handoff.consumer.synchronize();
    EXPECT_TRUE(handoff.consumer_read(value));
    EXPECT_TRUE(handoff.filled->reached());
  }
}

TEST_F(LaneTest, WaitUsesRecordingMadeBeforeIt) {
  Handoff handoff;
  test::HeldStream first(handoff.producer.stream());
  handoff.producer.record(*handoff.filled);
  handoff.consumer.wait(*handoff.filled);
  const auto done = handoff.consumer.make_mark();
  handoff.consumer.record(*done);
  test::HeldStream second(handoff.producer.stream());
  handoff.producer.record(*handoff.filled);
  first.release();
  done->synchronize();
  EXPECT_FALSE(handoff.filled->reached());
  EXPECT_TRUE(second.is_held());
  second.release();
  handoff.producer.synchronize();
}

TEST_F(LaneTest, HostWaitsForMark) {
  Handoff handoff;
  handoff.produce_held(kNew);
  EXPECT_FALSE(handoff.filled->reached());
  const std::jthread later([&] { handoff.held->release(); });
  handoff.filled->synchronize();
  EXPECT_TRUE(handoff.filled->reached());
  handoff.consume();
  handoff.consumer.synchronize();
  EXPECT_TRUE(handoff.consumer_read(kNew));
}

TEST_F(LaneTest, HostLaneBlocksUntilDeviceMarkIsReached) {
  Handoff handoff;
  HostLane host("loss");
  handoff.produce_held(kNew);
  const std::jthread later([&] { handoff.held->release(); });
  host.wait(*handoff.filled);
  EXPECT_TRUE(handoff.filled->reached());
}

TEST_F(LaneTest, CudaLaneAcceptsWaitForHostMarkButCannotRecordIt) {
  CudaLane lane("train", 0, 0);
  HostLane host("decode");
  const auto mark = host.make_mark();
  host.record(*mark);
  EXPECT_NO_THROW(lane.wait(*mark));
  EXPECT_THROW(lane.record(*mark), std::logic_error);
}

TEST_F(LaneTest, UnrecordedMarkThrowsLogicError) {
  CudaLane lane("train", 0, 0);
  const auto mark = lane.make_mark();
  EXPECT_THROW(lane.wait(*mark), std::logic_error);
  EXPECT_THROW(mark->synchronize(), std::logic_error);
  EXPECT_THROW(static_cast<void>(mark->reached()), std::logic_error);
}

TEST_F(LaneTest, UntimedMarksOrderLanesButHaveNoTime) {
  Handoff handoff;
  handoff.filled = handoff.producer.make_untimed_mark();
  handoff.produce_held(kNew);
  EXPECT_FALSE(handoff.filled->reached());
  handoff.consumer.wait(*handoff.filled);
  handoff.consume();
  handoff.held->release();
  handoff.consumer.synchronize();
  EXPECT_TRUE(handoff.consumer_read(kNew));
  handoff.produce_held(kOld);
  handoff.held->release();
  handoff.filled->synchronize();
  EXPECT_TRUE(handoff.filled->reached());
  const auto timed = handoff.producer.make_mark();
  handoff.producer.record(*timed);
  timed->synchronize();
  EXPECT_THROW(static_cast<void>(timed->seconds_after(*handoff.filled)), std::logic_error);
}

TEST_F(LaneTest, MarksMeasureTimeBetweenThem) {
  CudaLane lane("train", 0, 0);
  delay_async(1, lane.stream());
  const auto begin = lane.make_mark();
  const auto end = lane.make_mark();
  const auto start = std::chrono::steady_clock::now();
  lane.record(*begin);
  delay_async(5000, lane.stream());
  lane.record(*end);
  lane.synchronize();
  EXPECT_GT(end->seconds_after(*begin), 0.0049);
  EXPECT_LT(end->seconds_after(*begin), 1.1 * seconds_since(start)) << "clocks may differ a little";
}

TEST_F(LaneTest, LanesRunConcurrently) {
  ASSERT_TRUE(overlap_hindrances().empty()) << overlap_hindrances().front();
  Handoff handoff;
  for (const bool is_producer : {true, false}) {
    CudaLane& first = is_producer ? handoff.producer : handoff.consumer;
    CudaLane& second = is_producer ? handoff.consumer : handoff.producer;
    test::HeldStream held(first.stream());
    delay_async(100, second.stream());
    second.synchronize();
    EXPECT_TRUE(held.is_held()) << "one lane's work ends while the other's has not begun";
  }
}

TEST_F(LaneTest, LaneWorksFromAnotherThread) {
  Handoff handoff;
  handoff.produce_held(kNew);
  std::jthread([&] {
    handoff.consumer.wait(*handoff.filled);
    handoff.consume();
    handoff.held->release();
    handoff.consumer.synchronize();
  }).join();
  EXPECT_TRUE(handoff.consumer_read(kNew));
}

TEST_F(LaneTest, LaneCallsWorkDuringGraphCaptureInAnotherThread) {
  Handoff handoff;
  const Stream captured(0);
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal));
  std::jthread([&] {
    handoff.produce();
    const auto untimed = handoff.producer.make_untimed_mark();
    handoff.producer.record(*untimed);
    static_cast<void>(handoff.filled->reached());
    untimed->synchronize();
    handoff.filled->synchronize();
    EXPECT_TRUE(handoff.filled->reached());
    handoff.producer.begin_thread();
    handoff.producer.synchronize();
    const Bytes more(kBytes, kOld, &handoff.memory);
  }).join();
  check_cuda(cudaStreamEndCapture(captured.get(), &graph));
  check_cuda(cudaGraphDestroy(graph));
}

TEST_F(LaneTest, DelayOutsideLimitsThrowsLogicError) {
  CudaLane lane("train", 0, 0);
  EXPECT_THROW(delay_async(-1, lane.stream()), std::logic_error);
  EXPECT_THROW(delay_async(1e9, lane.stream()), std::logic_error);
  EXPECT_NO_THROW(delay_async(0, lane.stream()));
}

}  // namespace
}  // namespace slipstream::cuda
