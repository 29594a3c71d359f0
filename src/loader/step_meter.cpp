#include "loader/step_meter.h"

#include <algorithm>
#include <ctime>

namespace slipstream {
namespace {

std::uint64_t now_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(time.tv_nsec);
}

StepClock::Lap now() {
  const std::uint64_t wall_ns = now_ns(CLOCK_MONOTONIC);
  return {wall_ns, now_ns(CLOCK_THREAD_CPUTIME_ID), wall_ns};
}

constexpr std::uint64_t kLapUnitNs = 16;
constexpr std::uint64_t kMostUnits = 0xFFFF'FFFF;

std::uint64_t packed(const StepClock::Lap& lap) {
  return std::min(kMostUnits, lap.wall_ns / kLapUnitNs) << 32 |
         std::min(kMostUnits, lap.cpu_ns / kLapUnitNs);
}

float to_seconds(std::uint64_t units) { return static_cast<float>(units * kLapUnitNs) * 1e-9F; }

// Only one thread writes a cell, so a load and a store suffice, which are cheaper than an atomic
// addition.
void increase(std::atomic<std::uint64_t>& count, std::uint64_t by) {
  count.store(count.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace

StepClock::StepClock() : last_(now()) {}

StepClock::Lap StepClock::lap() {
  const Lap current = now();
  const Lap passed = {current.wall_ns - last_.wall_ns, current.cpu_ns - last_.cpu_ns,
                      current.end_ns};
  last_ = current;
  return passed;
}

StepMeter::StepMeter(std::size_t steps, TraceWriter trace)
    : cells_(std::make_unique<Cell[]>(steps)),
      laps_(std::make_unique<std::atomic<std::uint64_t>[]>(steps * kKeptLaps)),
      trace_(trace) {}

void StepMeter::add(std::size_t step, const SamplePosition& place, const StepClock::Lap& lap,
                    std::size_t bytes) {
  Cell& cell = cells_[step];
  lap_counter(step, cell.calls.load(std::memory_order_relaxed))
      .store(packed(lap), std::memory_order_relaxed);
  increase(cell.calls, 1);
  increase(cell.wall_ns, lap.wall_ns);
  increase(cell.cpu_ns, lap.cpu_ns);
  increase(cell.bytes, bytes);
  trace_.add({.name = step,
              .batch = place.batch,
              .sample = place.sample,
              .begin_ns = static_cast<std::int64_t>(lap.end_ns - lap.wall_ns),
              .end_ns = static_cast<std::int64_t>(lap.end_ns)});
}

void StepMeter::add_to(std::span<StepCounter> totals) const {
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const Cell& cell = cells_[i];
    totals[i].calls += cell.calls.load(std::memory_order_relaxed);
    totals[i].wall_s += static_cast<double>(cell.wall_ns.load(std::memory_order_relaxed)) * 1e-9;
    totals[i].cpu_s += static_cast<double>(cell.cpu_ns.load(std::memory_order_relaxed)) * 1e-9;
    totals[i].bytes += cell.bytes.load(std::memory_order_relaxed);
  }
}

void StepMeter::add_to(std::span<StepLaps> laps) const {
  for (std::size_t i = 0; i < laps.size(); ++i) {
    const std::uint64_t calls = cells_[i].calls.load(std::memory_order_relaxed);
    for (std::uint64_t n = calls - std::min<std::uint64_t>(calls, kKeptLaps); n < calls; ++n) {
      // The worker may replace the oldest laps meanwhile. A newer lap in place of an old one does
      // no harm.
      const std::uint64_t lap = lap_counter(i, n).load(std::memory_order_relaxed);
      laps[i].wall_s.push_back(to_seconds(lap >> 32));
      laps[i].cpu_s.push_back(to_seconds(lap & kMostUnits));
    }
  }
}

}  // namespace slipstream
