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

/// Runs a threaded schedule over host lanes and leaves `skip` out, on the host too. Where that wait
/// is needed, a lane is held back so that the accesses meet. Returns whether the result is the
/// serial one. REQUIRES: `check`, if any, is for a depth of probe_depth() and that and 24 marks.
template <typename Cell>
bool run_without(std::size_t lanes, const std::optional<WaitId>& skip, OrderCheck* check) {
  const std::size_t depth = probe_depth(lanes);
  PayloadRun run{.driver = Driver::threaded, .depth = depth};
  run.run_ahead = run.batches;  // a lane that waits for no other overtakes no mark
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
