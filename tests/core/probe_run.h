#pragma once

#include <algorithm>
#include <optional>

#include "core/order_check.h"
#include "core/payload.h"

namespace slipstream::test {

inline bool implied(const WaitId& wait, std::size_t lanes, std::size_t depth) {
  const auto waits = implied_waits(lanes, depth);
  return std::find(waits.begin(), waits.end(), wait) != waits.end();
}

inline std::size_t probe_depth(std::size_t lanes) { return lanes + 1; }

/// Runs a threaded schedule over host lanes without the wait `skip`, which is left out on the host
/// as well. If the wait is required, a lane is delayed so that the accesses collide. Returns true
/// if the result equals the serial one. `check`, if any, must be constructed for a depth of
/// probe_depth() and 24 more marks.
template <typename Cell>
bool run_without(std::size_t lanes, const std::optional<WaitId>& skip, OrderCheck* check) {
  const std::size_t depth = probe_depth(lanes);
  PayloadRun run{.driver = Driver::threaded, .depth = depth};
  run.run_ahead = run.batches;  // no lane can record a mark again before another lane waits for it
  ScheduleProbe probe;
  probe.check = check;
  if (skip) {
    probe.skip = [skip](const WaitId& wait) { return wait == *skip; };
    probe.skip_gate = true;
    if (!implied(*skip, lanes, depth)) run.hold = hold_against(*skip, lanes, depth);
  }
  CpuRig<Cell> rig(Kind::host, lanes, depth);
  LaneThreads threads;
  return run_payload(rig, threads, run, &probe) == serial_digest(run.batches);
}

}  // namespace slipstream::test
