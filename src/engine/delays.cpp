#include "engine/delays.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "core/fingerprint.h"
#include "cuda/cuda.h"

namespace slipstream {

void delay_lane(Lane& lane, double microseconds) {
  auto* stream = dynamic_cast<cuda::CudaLane*>(&lane);
  if (stream == nullptr) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(microseconds));
    return;
  }
  const cuda::DeviceGuard device(stream->device());
  cuda::delay_async(microseconds, stream->stream());
}

void apply_hooks(const RunHooks& hooks, const std::vector<LaneBinding>& lanes, ScheduleProbe& probe,
                 ForkProbe& forks) {
  if (hooks.probe != nullptr) probe = *hooks.probe;
  if (hooks.fork_probe != nullptr) forks = *hooks.fork_probe;
  if (hooks.lane_delay_us <= 0) return;
  const auto drawn_us = [hooks](std::uint64_t what) {
    const std::uint64_t word = mix64(hooks.delay_seed + mix64(what));
    return hooks.lane_delay_us * static_cast<double>(word >> 40) * 0x1p-24;
  };
  forks.delay = [drawn_us, count = std::make_shared<std::atomic<std::uint64_t>>(),
                 before = forks.delay](Lane& branch, bool first) {
    if (before) before(branch, first);
    // The complement keeps these numbers apart from those that the lanes use below.
    delay_lane(branch, drawn_us(~count->fetch_add(1)));
  };
  probe.delay = [drawn_us, &lanes, before = probe.delay](std::size_t lane, std::uint64_t batch,
                                                         bool first) {
    if (before) before(lane, batch, first);
    delay_lane(*lanes[lane].lane, drawn_us(batch * 64 + lane * 2 + first));
  };
}

}  // namespace slipstream
