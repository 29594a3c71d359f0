#include "cuda/stream_gaps.h"

#include <chrono>
#include <thread>

#include "cuda/cuda.h"
#include "cuda/held_stream.h"
#include "gpu.h"

namespace slipstream::cuda {
namespace {

using StreamGapsTest = test::GpuTest;

constexpr std::chrono::milliseconds kPause(50);

/// Measures a gap in which the host sleeps.
double gap_with_pause_s(StreamGaps& gaps, const Stream& stream) {
  gaps.begin(stream.get());
  std::this_thread::sleep_for(kPause);
  gaps.end(stream.get());
  stream.synchronize();
  return gaps.take_s();
}

TEST_F(StreamGapsTest, GapOfAnIdleStreamIsAsLongAsTheHostsPause) {
  const Stream stream(0);
  StreamGaps gaps(0);
  EXPECT_GE(gap_with_pause_s(gaps, stream), 0.9e-3 * static_cast<double>(kPause.count()));
  EXPECT_EQ(gaps.take_s(), 0) << "a gap is counted once";
}

TEST_F(StreamGapsTest, GapOfAStreamThatHasWorkIsShorterThanTheHostsPause) {
  const Stream stream(0);
  StreamGaps gaps(0);
  test::HeldStream held(stream);
  gaps.begin(stream.get());
  std::this_thread::sleep_for(kPause);
  gaps.end(stream.get());
  EXPECT_EQ(gaps.take_s(), 0) << "does not wait for the stream";
  ASSERT_TRUE(held.is_held());
  held.release();
  stream.synchronize();
  EXPECT_LT(gaps.take_s(), 0.5e-3 * static_cast<double>(kPause.count()));
}

TEST_F(StreamGapsTest, MoreGapsThanAreKeptAreNotMeasured) {
  const Stream stream(0);
  StreamGaps gaps(0);
  test::HeldStream held(stream);
  for (int i = 0; i < 200; ++i) {
    gaps.begin(stream.get());
    gaps.end(stream.get());
  }
  ASSERT_TRUE(held.is_held());
  held.release();
  stream.synchronize();
  EXPECT_GE(gaps.take_s(), 0);
  EXPECT_GT(gap_with_pause_s(gaps, stream), 0) << "gaps are measured again";
}

TEST_F(StreamGapsTest, NothingIsRecordedInACapturedGraph) {
  const Stream stream(0);
  StreamGaps gaps(0);
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
  gaps.begin(stream.get());
  gaps.end(stream.get());
  EXPECT_EQ(gaps.take_s(), 0);
  check_cuda(cudaStreamEndCapture(stream.get(), &graph));
  std::size_t nodes = 1;
  check_cuda(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 0U);
  check_cuda(cudaGraphDestroy(graph));
}

}  // namespace
}  // namespace slipstream::cuda
