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

/// Measures wall time and this thread's CPU time since the last lap, in ns.
class StepClock {
 public:
  struct Lap {
    std::uint64_t wall_ns;
    std::uint64_t cpu_ns;
    std::uint64_t end_ns;  ///< end of the lap, on the clock of traces
  };

  StepClock();
  Lap lap();

 private:
  Lap last_;
};

/// The cost of each step for one worker. Only that worker writes it; any thread may read it.
class StepMeter {
 public:
  /// If `trace` records, its names are those of the steps, in order.
  explicit StepMeter(std::size_t steps, TraceWriter trace = {});

  void add(std::size_t step, const SamplePosition& place, const StepClock::Lap& lap,
           std::size_t bytes);
  /// Adds this worker's counts to `totals`, which has one entry for each step.
  void add_to(std::span<StepCounter> totals) const;
  /// Adds the times of this worker's last samples, in order, at most kKeptLaps for each step.
  void add_to(std::span<StepLaps> laps) const;

 private:
  // A whole cache line, because the memory next to it may belong to another worker, which writes
  // often.
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> wall_ns{0};
    std::atomic<std::uint64_t> cpu_ns{0};
    std::atomic<std::uint64_t> bytes{0};
  };
  /// Returns one entry: wall time in the upper 32 bits, CPU time in the lower 32 bits, both in
  /// units of kLapUnit. Both are in one word so that a reader never sees the wall time of one
  /// sample with the CPU time of another.
  std::atomic<std::uint64_t>& lap_counter(std::size_t step, std::uint64_t call) const {
    return laps_[step * kKeptLaps + call % kKeptLaps];
  }
  std::unique_ptr<Cell[]> cells_;  ///< one for each step
  std::unique_ptr<std::atomic<std::uint64_t>[]> laps_;
  TraceWriter trace_;
};

}  // namespace slipstream
