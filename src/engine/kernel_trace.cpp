#include "engine/kernel_trace.h"

#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/message.h"

namespace slipstream {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

const std::set<ActivityType> kActivities = {ActivityType::CUDA};

torch::profiler::impl::ProfilerConfig config() {
  return torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::KINETO);
}

/// Returns the offset from Kineto's times, which count from 1970, to the clock of traces.
std::int64_t to_trace_clock_ns() {
  using std::chrono::nanoseconds;
  // The two clocks cannot be read at the same moment, so the system clock is read between two
  // readings of the other one.
  const std::int64_t before = trace_now_ns();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t after = trace_now_ns();
  return (before + after) / 2 - std::chrono::duration_cast<nanoseconds>(now).count();
}

bool is_work_of_gpu(const profiler::KinetoEvent& event) {
  using Activity = libkineto::ActivityType;
  const auto activity = static_cast<Activity>(event.activityType());
  return activity == Activity::CONCURRENT_KERNEL || activity == Activity::GPU_MEMCPY ||
         activity == Activity::GPU_MEMSET;
}

struct Stream {
  std::vector<std::string> names;
  std::map<std::string, std::size_t> known;
  std::vector<TraceEvent> events;

  void add(const profiler::KinetoEvent& event, std::int64_t shift_ns) {
    const auto [name, is_new] = known.try_emplace(event.name(), names.size());
    if (is_new) names.push_back(name->first);
    events.push_back({.name = name->second,
                      .begin_ns = static_cast<std::int64_t>(event.startNs()) + shift_ns,
                      .end_ns = static_cast<std::int64_t>(event.endNs()) + shift_ns});
  }
};

std::map<std::int64_t, Stream> find_streams(const profiler::ProfilerResult& result) {
  const std::int64_t shift_ns = to_trace_clock_ns();
  std::map<std::int64_t, Stream> streams;
  for (const profiler::KinetoEvent& event : result.events())
    if (is_work_of_gpu(event)) streams[event.deviceResourceId()].add(event, shift_ns);
  for (auto& [id, stream] : streams)
    std::sort(stream.events.begin(), stream.events.end(),
              [](const TraceEvent& a, const TraceEvent& b) { return a.begin_ns < b.begin_ns; });
  return streams;
}

}  // namespace

KernelTrace::KernelTrace(const Context& context) : on_gpu_(context.kind() == DeviceKind::cuda) {
  if (!on_gpu_) return;
  try {
    profiler::prepareProfiler(config(), kActivities);
  } catch (const std::exception& e) {
    problem_ = "kernels are not recorded: " + describe_error(e);
  }
}

KernelTrace::~KernelTrace() {
  if (!running_) return;
  try {
    profiler::disableProfiler();
  } catch (...) {  // a destructor must not throw, and the recorded data is discarded anyway
  }
}

void KernelTrace::start() {
  if (!on_gpu_ || !problem_.empty()) return;
  try {
    profiler::enableProfiler(config(), kActivities);
    running_ = true;
  } catch (const std::exception& e) {
    problem_ = "kernels are not recorded: " + describe_error(e);
  }
}

void KernelTrace::stop(TraceRecorder& recorder) {
  if (!running_) return;
  running_ = false;
  try {
    const auto streams = find_streams(*profiler::disableProfiler());
    if (streams.empty())
      problem_ =
          "kernels are not recorded: PyTorch's profiler (Kineto, CUPTI) returned none on this "
          "machine";
    for (const auto& [id, stream] : streams)
      recorder.add_row(TraceRow::Kind::stream, "stream " + std::to_string(id), stream.names,
                       stream.events);
  } catch (const std::exception& e) {
    problem_ = "kernels are not recorded: " + describe_error(e);
  }
}

}  // namespace slipstream
