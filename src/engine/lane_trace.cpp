#include "engine/lane_trace.h"

#include <torch/csrc/profiler/stubs/base.h>

#include <cmath>
#include <limits>

#include "engine/current_lane.h"

namespace slipstream {
namespace {

constexpr int kClockReadings = 16;

std::int64_t to_nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

}  // namespace

LaneTrace::LaneTrace(TraceRecorder& recorder, Context& context, std::span<const LaneBinding> lanes,
                     std::size_t window, std::uint64_t first_step)
    : first_step_(first_step), on_gpu_(context.kind() == DeviceKind::cuda) {
  for (const LaneBinding& binding : lanes) {
    TracedLane& lane = lanes_.emplace_back();
    lane.lane = binding.lane;
    for (const DeviceStep& step : binding.steps) lane.steps.push_back(step.name);
    const std::string& name = binding.lane->name();
    lane.device = {recorder, recorder.row(TraceRow::Kind::lane, name, lane.steps)};
    if (on_gpu_)
      lane.host = {recorder, recorder.row(TraceRow::Kind::host, "enqueue " + name, lane.steps)};
    lane.ends.resize(window);
    for (auto& marks : lane.ends)
      for (std::size_t step = 1; step < lane.steps.size(); ++step)
        marks.push_back(binding.lane->make_mark());
  }
  const CurrentLane current(context, *lanes_.front().lane);
  join_clocks(recorder);
}

/// Relates the lane's clock to the host's. A mark is recorded between two readings of the host's
/// clock; of several attempts, the one with the closest readings is used.
void LaneTrace::join_clocks(TraceRecorder& recorder) {
  Lane& lane = *lanes_.front().lane;
  lane.synchronize();
  std::int64_t apart_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kClockReadings; ++i) {
    auto mark = lane.make_mark();
    const std::int64_t before_ns = trace_now_ns();
    lane.record(*mark);
    while (!mark->reached()) {
    }
    const std::int64_t after_ns = trace_now_ns();
    if (after_ns - before_ns >= apart_ns) continue;
    apart_ns = after_ns - before_ns;
    origin_ns_ = before_ns + apart_ns / 2;
    origin_ = std::move(mark);
  }
  if (on_gpu_) recorder.set_clock_error_ns((apart_ns + 1) / 2);
}

void LaneTrace::completed(std::uint64_t batch, std::span<const double> end_s,
                          std::span<const Mark* const> begin, std::span<const Mark* const> end) {
  if (batch == 0) first_begin_s_ = begin.front()->seconds_after(*origin_);
  const std::uint64_t number = first_step_ + batch;
  for (std::size_t k = 0; k < lanes_.size(); ++k) {
    TracedLane& lane = lanes_[k];
    if (!lane.device.wants(number)) continue;
    const std::int64_t end_ns = origin_ns_ + to_nanoseconds(first_begin_s_ + end_s[k]);
    const std::int64_t begin_ns = end_ns - to_nanoseconds(end[k]->seconds_after(*begin[k]));
    std::int64_t from_ns = begin_ns;
    for (std::size_t step = 0; step < lane.steps.size(); ++step) {
      const bool is_last = step + 1 == lane.steps.size();
      const std::int64_t to_ns =
          is_last
              ? end_ns
              : begin_ns + to_nanoseconds(end_mark(lane, batch, step)->seconds_after(*begin[k]));
      lane.device.add({.name = step, .batch = number, .begin_ns = from_ns, .end_ns = to_ns});
      from_ns = to_ns;
    }
  }
}

LaneTrace::Step::Step(LaneTrace* trace, std::size_t lane, std::uint64_t batch, std::size_t step)
    : trace_(trace), lane_(lane), batch_(batch), step_(step) {
  if (trace_ == nullptr) return;
  const TracedLane& traced = trace_->lanes_[lane];
  const std::uint64_t number = trace_->first_step_ + batch;
  if (!traced.device.wants(number)) {
    trace_ = nullptr;
    return;
  }
  begin_ns_ = trace_now_ns();
  const auto* nvtx = torch::profiler::impl::cudaStubs();
  if (!nvtx->enabled()) return;
  nvtx->rangePush((traced.steps[step] + " #" + std::to_string(number)).c_str());
  in_range_ = true;
}

LaneTrace::Step::~Step() {
  if (trace_ == nullptr) return;
  if (in_range_) torch::profiler::impl::cudaStubs()->rangePop();
  trace_->lanes_[lane_].host.add({.name = step_,
                                  .batch = trace_->first_step_ + batch_,
                                  .begin_ns = begin_ns_,
                                  .end_ns = trace_now_ns()});
}

void LaneTrace::Step::done() {
  if (trace_ == nullptr) return;
  TracedLane& lane = trace_->lanes_[lane_];
  if (step_ + 1 < lane.steps.size()) lane.lane->record(*trace_->end_mark(lane, batch_, step_));
}

}  // namespace slipstream
