#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/trace.h"
#include "loader/running_order.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Wall time and this thread's CPU time since the last lap, ns.
class StepClock {
 public:
  struct Lap {
    std::uint64_t wall_ns;
    std::uint64_t cpu_ns;
    std::uint64_t end_ns;  ///< of the lap, on the clock of traces
  };

  StepClock();
  Lap lap();

 private:
  Lap last_;
};

/// What each step cost one worker. Written by that worker, read by anyone.
class StepMeter {
 public:
  /// `trace`, where there is one, has the steps' names, in their order.
  explicit StepMeter(std::size_t steps, TraceWriter trace = {});

  void add(std::size_t step, const SamplePosition& place, const StepClock::Lap& lap,
           std::size_t bytes);
  /// Adds this worker's counts to `totals`, one per step.
  void add_to(std::span<StepCounter> totals) const;
  /// Adds this worker's last samples, in their order, at most kKeptLaps a step.
  void add_to(std::span<StepLaps> laps) const;

 private:
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> wall_ns{0};
    std::atomic<std::uint64_t> cpu_ns{0};
    std::atomic<std::uint64_t> bytes{0};
  };
  /// Wall time in the upper half, CPU time in the lower, both in kLapUnit.
  std::atomic<std::uint64_t>& lap_counter(std::size_t step, std::uint64_t call) const {
    return laps_[step * kKeptLaps + call % kKeptLaps];
  }
  std::unique_ptr<Cell[]> cells_;  ///< one a step
  std::unique_ptr<std::atomic<std::uint64_t>[]> laps_;
  TraceWriter trace_;
};

}  // namespace slipstream
