#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "core/seconds_since.h"
#include "cuda/device_buffer.h"
#include "gpu.h"

namespace slipstream::cuda {
namespace {

using test::DeviceBuffer;

constexpr std::size_t kBytes = 1 << 20;
constexpr double kLongUs = 50'000;
constexpr unsigned char kOld = 0x11;
constexpr unsigned char kNew = 0xAB;

using Bytes = std::pmr::vector<unsigned char>;

double seconds_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return seconds_since(start);
}

// One lane brings kNew into device memory that holds kOld, late; another copies it out.
struct Handoff {
  Handoff() {
    for (CudaLane* lane : {&producer, &consumer}) {
      delay_async(1, lane->stream());  // the first launch may block: kernels are loaded lazily
      copy_async(seen.data(), device.get(), kBytes, lane->stream());
      lane->synchronize();
    }
  }

  void produce_late(unsigned char value) {
    source.assign(kBytes, value);
    delay_async(kLongUs, producer.stream());
    copy_async(device.get(), source.data(), kBytes, producer.stream());
    producer.record(*filled);
  }
  void consume() { copy_async(seen.data(), device.get(), kBytes, consumer.stream()); }
  bool saw(unsigned char value) const { return seen == Bytes(kBytes, value); }

  PinnedMemory memory;
  Bytes source = Bytes(kBytes, kNew, &memory);
  Bytes seen = Bytes(kBytes, 0, &memory);
  DeviceBuffer<unsigned char> device{kBytes, kOld};
  CudaLane producer{"producer", 0, 0};
  CudaLane consumer{"consumer", 0, 1};
  std::unique_ptr<Mark> filled = producer.make_mark();
};

using LaneTest = test::GpuTest;

TEST_F(LaneTest, a_wait_orders_a_consumer_behind_a_late_producer) {
  Handoff handoff;
  handoff.produce_late(kNew);
  const double enqueue_s = seconds_of([&] {
    handoff.consumer.wait(*handoff.filled);
    handoff.consume();
  });
  EXPECT_LT(enqueue_s, kLongUs * 1e-6 / 2) << "a stream wait must not block the host";
  handoff.consumer.synchronize();
  EXPECT_TRUE(handoff.saw(kNew));
}

// Shows that the test above can fail. Tools that serialize streams break this one.
TEST_F(LaneTest, without_the_wait_the_consumer_is_too_early) {
  ASSERT_TRUE(overlap_hindrances().empty()) << overlap_hindrances().front();
  Handoff handoff;
  handoff.produce_late(kNew);
  handoff.consume();
  handoff.consumer.synchronize();
  EXPECT_TRUE(handoff.saw(kOld));
  EXPECT_FALSE(handoff.filled->reached());
  handoff.producer.synchronize();
}

TEST_F(LaneTest, a_mark_recorded_again_moves) {
  Handoff handoff;
  handoff.producer.record(*handoff.filled);
  handoff.producer.synchronize();
  EXPECT_TRUE(handoff.filled->reached());

  for (const unsigned char value : {kNew, kOld, kNew}) {
    handoff.produce_late(value);
    EXPECT_FALSE(handoff.filled->reached());
    handoff.consumer.wait(*handoff.filled);
    handoff.consume();
    handoff.consumer.synchronize();
    EXPECT_TRUE(handoff.saw(value));
    EXPECT_TRUE(handoff.filled->reached());
  }
}

TEST_F(LaneTest, a_wait_keeps_the_recording_it_was_made_for) {
  Handoff handoff;
  handoff.produce_late(kNew);
  handoff.consumer.wait(*handoff.filled);
  const auto done = handoff.consumer.make_mark();
  handoff.consumer.record(*done);
  handoff.produce_late(kNew);  // records `filled` again, behind the consumer's back
  done->synchronize();
  EXPECT_FALSE(handoff.filled->reached());
  handoff.producer.synchronize();
}

TEST_F(LaneTest, the_host_can_wait_for_a_mark) {
  Handoff handoff;
  handoff.produce_late(kNew);
  EXPECT_FALSE(handoff.filled->reached());
  const double waited_s = seconds_of([&] { handoff.filled->synchronize(); });
  EXPECT_TRUE(handoff.filled->reached());
  EXPECT_GT(waited_s, kLongUs * 1e-6 / 2);
  handoff.consume();
  handoff.consumer.synchronize();
  EXPECT_TRUE(handoff.saw(kNew));
}

TEST_F(LaneTest, a_host_lane_blocks_on_a_device_mark) {
  Handoff handoff;
  HostLane host("loss");
  handoff.produce_late(kNew);
  host.wait(*handoff.filled);
  EXPECT_TRUE(handoff.filled->reached());
}

TEST_F(LaneTest, a_host_mark_needs_no_wait) {
  CudaLane lane("train", 0, 0);
  HostLane host("decode");
  const auto mark = host.make_mark();
  host.record(*mark);
  EXPECT_NO_THROW(lane.wait(*mark));
  EXPECT_THROW(lane.record(*mark), std::logic_error);
}

TEST_F(LaneTest, a_mark_never_recorded_cannot_be_waited_for) {
  CudaLane lane("train", 0, 0);
  const auto mark = lane.make_mark();
  EXPECT_THROW(lane.wait(*mark), std::logic_error);
  EXPECT_THROW(mark->synchronize(), std::logic_error);
  EXPECT_THROW(static_cast<void>(mark->reached()), std::logic_error);
}

TEST_F(LaneTest, marks_without_a_time_order_and_wait_as_others_do) {
  Handoff handoff;
  handoff.filled = handoff.producer.make_untimed_mark();
  handoff.produce_late(kNew);
  EXPECT_FALSE(handoff.filled->reached());
  handoff.consumer.wait(*handoff.filled);
  handoff.consume();
  handoff.consumer.synchronize();
  EXPECT_TRUE(handoff.saw(kNew));
  handoff.produce_late(kOld);
  handoff.filled->synchronize();
  EXPECT_TRUE(handoff.filled->reached());
  const auto timed = handoff.producer.make_mark();
  handoff.producer.record(*timed);
  timed->synchronize();
  EXPECT_THROW(static_cast<void>(timed->seconds_after(*handoff.filled)), std::logic_error);
}

TEST_F(LaneTest, marks_tell_the_time_between_them) {
  CudaLane lane("train", 0, 0);
  delay_async(1, lane.stream());
  const auto begin = lane.make_mark();
  const auto end = lane.make_mark();
  lane.record(*begin);
  delay_async(5000, lane.stream());
  lane.record(*end);
  lane.synchronize();
  EXPECT_GT(end->seconds_after(*begin), 0.0049);
  EXPECT_LT(end->seconds_after(*begin), 0.1);
}

TEST_F(LaneTest, lanes_overlap) {
  ASSERT_TRUE(overlap_hindrances().empty()) << overlap_hindrances().front();
  Handoff handoff;
  const double both_s = seconds_of([&] {
    delay_async(kLongUs, handoff.producer.stream());
    delay_async(kLongUs, handoff.consumer.stream());
    handoff.producer.synchronize();
    handoff.consumer.synchronize();
  });
  EXPECT_LT(both_s, kLongUs * 1e-6 * 1.8);
}

TEST_F(LaneTest, a_lane_may_be_driven_from_another_thread) {
  Handoff handoff;
  handoff.produce_late(kNew);
  std::jthread([&] {
    handoff.consumer.wait(*handoff.filled);
    handoff.consume();
    handoff.consumer.synchronize();
  }).join();
  EXPECT_TRUE(handoff.saw(kNew));
}

TEST_F(LaneTest, graphs_that_other_threads_capture_and_its_calls_do_not_end_each_other) {
  Handoff handoff;
  const Stream captured(0);
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal));
  std::jthread([&] {
    handoff.produce_late(kNew);
    const auto untimed = handoff.producer.make_untimed_mark();
    handoff.producer.record(*untimed);
    EXPECT_FALSE(handoff.filled->reached());
    untimed->synchronize();
    handoff.filled->synchronize();
    handoff.producer.begin_thread();
    handoff.producer.synchronize();
    const Bytes more(kBytes, kOld, &handoff.memory);
  }).join();
  check_cuda(cudaStreamEndCapture(captured.get(), &graph));
  check_cuda(cudaGraphDestroy(graph));
}

TEST_F(LaneTest, a_delay_is_bounded) {
  CudaLane lane("train", 0, 0);
  EXPECT_THROW(delay_async(-1, lane.stream()), std::logic_error);
  EXPECT_THROW(delay_async(1e9, lane.stream()), std::logic_error);
  EXPECT_NO_THROW(delay_async(0, lane.stream()));
}

}  // namespace
}  // namespace slipstream::cuda
