#include <gmock/gmock.h>

#include <algorithm>

#include "core/trace.h"
#include "engine/engine.h"
#include "engine/kernel_trace.h"

namespace slipstream::test {
namespace {

using Kind = TraceRow::Kind;
using testing::IsEmpty;

class KernelTraceTest : public EngineTest {
 protected:
  static std::vector<const TraceRow*> rows(const TraceRecorder& recorder, Kind kind) {
    std::vector<const TraceRow*> rows = recorder.rows();
    std::erase_if(rows, [kind](const TraceRow* row) { return row->kind() != kind; });
    return rows;
  }
};

TEST_F(KernelTraceTest, KernelsAndCopiesAreRecordedOnStreamRowsDuringTheRun) {
  const auto one = trainer({});
  const Plan plan = build_plan(kThreeLanes, Driver::threaded, 3);
  auto recorder = std::make_shared<TraceRecorder>(TraceRecorder::Options{});
  RunHooks hooks;
  hooks.trace = recorder;
  RunOptions options = steps(20);
  options.digest = false;
  KernelTrace kernels(context());
  one->run(plan, steps(10));
  kernels.start();
  run_with(*one, plan, options, hooks);
  recorder->stop();
  kernels.stop(*recorder);
  ASSERT_THAT(kernels.problem(), IsEmpty());

  const std::int64_t apart_ns = 500'000 + recorder->clock_error_ns();
  const auto streams = rows(*recorder, Kind::stream);
  EXPECT_GE(streams.size(), 3U);  // one per lane
  std::int64_t begin_ns = trace_now_ns(), end_ns = 0;
  for (const TraceRow* lane : rows(*recorder, Kind::lane))
    for (const TraceEvent& event : lane->events()) {
      begin_ns = std::min(begin_ns, event.begin_ns);
      end_ns = std::max(end_ns, event.end_ns);
    }
  std::size_t copies = 0, works = 0, inside = 0;
  for (const TraceRow* stream : streams)
    for (const TraceEvent& event : stream->events()) {
      EXPECT_LE(event.begin_ns, event.end_ns);
      ++works;
      inside += static_cast<std::size_t>(event.begin_ns >= begin_ns - apart_ns &&
                                         event.end_ns <= end_ns + apart_ns);
      copies +=
          static_cast<std::size_t>(stream->names()[event.name].find("HtoD") != std::string::npos);
    }
  EXPECT_GE(copies, 20U);     // one slab per step
  EXPECT_GE(works, 5U * 20);  // and several kernels per step
  // Work that the run enqueues before its first batch belongs to no lane.
  EXPECT_GE(inside, works * 3 / 4);
}

TEST_F(KernelTraceTest, LaneStepsEndAfterHostStartsEnqueuingThem) {
  const auto one = trainer({});
  RunHooks hooks;
  hooks.trace = std::make_shared<TraceRecorder>(TraceRecorder::Options{});
  run_with(*one, build_plan(kThreeLanes, Driver::threaded, 3), steps(20), hooks);
  const auto lanes = rows(*hooks.trace, Kind::lane), host = rows(*hooks.trace, Kind::host);
  ASSERT_EQ(lanes.size(), host.size());
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    ASSERT_EQ(lanes[lane]->events().size(), 20U);
    for (std::size_t i = 0; i < 20; ++i)
      EXPECT_GE(lanes[lane]->events()[i].end_ns, host[lane]->events()[i].begin_ns - 200'000);
  }
}

TEST_F(KernelTraceTest, CanBeStartedAgainAfterStop) {
  const auto one = trainer({});
  for (int i = 0; i < 2; ++i) {
    TraceRecorder recorder({});
    KernelTrace kernels(context());
    kernels.start();
    one->run(serial_plan(), steps(5));
    kernels.stop(recorder);
    EXPECT_THAT(kernels.problem(), IsEmpty());
    EXPECT_FALSE(rows(recorder, Kind::stream).empty());
  }
  KernelTrace thrown_away(context());
  thrown_away.start();
}

}  // namespace
}  // namespace slipstream::test
