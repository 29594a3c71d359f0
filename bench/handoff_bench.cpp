// Measures the host time of one handoff between two lanes: it records a mark on one stream and
// makes another stream wait for it. Times are the host's unless a name says "device".
#include <functional>
#include <vector>

#include "device_bench.h"

namespace slipstream::bench {
namespace {

using cuda::check_cuda;
using cuda::CudaLane;

// Few enough for a stream's queue: if the queue is full, a launch blocks the host.
constexpr int kBurst = 32;
// Keeps the producer busy while a burst is enqueued, as in training.
constexpr double kBusyUs = 3000;

struct Lanes {
  CudaLane producer{"producer", 0, 0};
  CudaLane consumer{"consumer", 0, 1};

  void synchronize() {
    producer.synchronize();
    consumer.synchronize();
  }
};

// Times `step` in bursts; the time in which the streams drain between bursts does not count.
void time_bursts(benchmark::State& state, Lanes& lanes, bool is_busy,
                 const std::function<void(std::size_t)>& step) {
  lanes.synchronize();
  while (state.KeepRunningBatch(kBurst)) {
    state.PauseTiming();
    lanes.synchronize();
    if (is_busy) cuda::delay_async(kBusyUs, lanes.producer.stream());
    state.ResumeTiming();
    for (std::size_t i = 0; i < kBurst; ++i) step(i);
  }
  lanes.synchronize();
}

void handoff(benchmark::State& state, bool is_busy) {
  Lanes lanes;
  std::vector<std::unique_ptr<Mark>> marks;
  for (int i = 0; i < kBurst; ++i) marks.push_back(lanes.producer.make_mark());
  time_bursts(state, lanes, is_busy, [&](std::size_t i) {
    lanes.producer.record(*marks[i]);
    lanes.consumer.wait(*marks[i]);
  });
}

void record(benchmark::State& state) {
  Lanes lanes;
  const auto mark = lanes.producer.make_mark();
  time_bursts(state, lanes, true, [&](std::size_t) { lanes.producer.record(*mark); });
}

void wait(benchmark::State& state) {
  Lanes lanes;
  const auto mark = lanes.producer.make_mark();
  cuda::delay_async(1, lanes.producer.stream());
  lanes.producer.record(*mark);
  time_bursts(state, lanes, true, [&](std::size_t i) {
    if (i == 0) lanes.producer.record(*mark);
    lanes.consumer.wait(*mark);
  });
}

// A handoff with plain events, to show the cost of the timestamps of marks.
void bare_handoff(benchmark::State& state, unsigned flags) {
  Lanes lanes;
  std::vector<cudaEvent_t> events(kBurst);
  for (cudaEvent_t& event : events) check_cuda(cudaEventCreateWithFlags(&event, flags));
  time_bursts(state, lanes, true, [&](std::size_t i) {
    check_cuda(cudaEventRecord(events[i], lanes.producer.stream().get()));
    check_cuda(cudaStreamWaitEvent(lanes.consumer.stream().get(), events[i], 0));
  });
  for (cudaEvent_t event : events) check_cuda(cudaEventDestroy(event));
}

// Time from the end of the producer's kernel to the start of the consumer's next work, on the
// device's clock.
void device_latency(benchmark::State& state) {
  Lanes lanes;
  const auto produced = lanes.producer.make_mark();
  const auto resumed = lanes.consumer.make_mark();
  for ([[maybe_unused]] auto iteration : state) {
    cuda::delay_async(50, lanes.producer.stream());
    lanes.producer.record(*produced);
    lanes.consumer.wait(*produced);
    lanes.consumer.record(*resumed);
    lanes.synchronize();
    state.SetIterationTime(std::max(0.0, resumed->seconds_after(*produced)));
  }
}

// Time from the end of the producer's kernel to the return of synchronize(), which blocks.
void host_wake_up(benchmark::State& state) {
  Lanes lanes;
  const auto mark = lanes.producer.make_mark();
  constexpr double kDelayUs = 500;
  for ([[maybe_unused]] auto iteration : state) {
    cuda::delay_async(kDelayUs, lanes.producer.stream());
    lanes.producer.record(*mark);
    mark->synchronize();
  }
  state.SetLabel("includes a delay of 500 us");
}

void register_all(const cuda::DeviceInfo&) {
  using benchmark::RegisterBenchmark;
  // The number of iterations is fixed, because every burst costs kBusyUs of untimed delay.
  const auto add = [](const char* name, auto... arguments) {
    return RegisterBenchmark(name, arguments...)->UseRealTime()->Iterations(kBurst * 50);
  };
  add("handoff/busy", handoff, true);
  add("handoff/idle", handoff, false);
  add("handoff/record", record);
  add("handoff/wait", wait);
  add("handoff/bare_with_timing", bare_handoff, unsigned{cudaEventBlockingSync});
  add("handoff/bare_without_timing", bare_handoff,
      unsigned{cudaEventBlockingSync | cudaEventDisableTiming});
  RegisterBenchmark("handoff/device_latency", device_latency)->UseManualTime()->Iterations(200);
  RegisterBenchmark("handoff/host_wake_up", host_wake_up)->UseRealTime()->Iterations(200);
}

}  // namespace
}  // namespace slipstream::bench

int main(int argc, char** argv) {
  return slipstream::bench::main_on_device(argc, argv, slipstream::bench::register_all);
}
