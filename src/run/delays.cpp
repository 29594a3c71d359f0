#include "run/delays.h"

#include <atomic>
#include <memory>

#include "core/fingerprint.h"
#include "core/fork.h"
#include "run/trainer_impl.h"

namespace slipstream {

void Trainer::Impl::apply_delays(const RunOptions& options, const std::vector<LaneBinding>& lanes,
                                 ScheduleProbe& probe, ForkProbe& forks) {
  if (options.probe != nullptr) probe = *options.probe;
  if (options.fork_probe != nullptr) forks = *options.fork_probe;
  if (options.lane_delay_us <= 0) return;
  const auto drawn_us = [&options](std::uint64_t what) {
    const std::uint64_t word = mix64(options.delay_seed + mix64(what));
    return options.lane_delay_us * static_cast<double>(word >> 40) * 0x1p-24;
  };
  forks.delay = [this, drawn_us, count = std::make_shared<std::atomic<std::uint64_t>>(),
                 before = forks.delay](Lane& branch, bool first) {
    if (before) before(branch, first);
    context.delay(branch, drawn_us(~count->fetch_add(1)));
  };
  probe.delay = [this, drawn_us, &lanes, before = probe.delay](std::size_t lane,
                                                               std::uint64_t batch, bool first) {
    if (before) before(lane, batch, first);
    context.delay(*lanes[lane].lane, drawn_us(batch * 64 + lane * 2 + first));
  };
}

}  // namespace slipstream
