#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/order_check.h"
#include "core/payload.h"
#include "core/probe_run.h"

// Properties that every kind of lane must have. Waits are left out one at a time. If a required
// wait is missing, the order check always reports it, and the digest differs when a lane is delayed
// accordingly.

namespace slipstream::test {

inline ScheduleProbe without(const WaitId& wait) {
  ScheduleProbe probe;
  probe.skip = [wait](const WaitId& id) { return id == wait; };
  return probe;
}

inline void expect_serial_under_random_delays(Rig& rig, LaneThreads& threads, Driver driver,
                                              std::size_t depth, bool pulled = false) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const ScheduleProbe delays = random_delays(rig, seed);
    const PayloadRun run{.driver = driver, .depth = depth, .run_ahead = seed, .pulled = pulled};
    EXPECT_EQ(run_payload(rig, threads, run, &delays), serial_digest(run.batches))
        << "seed " << seed;
  }
}

inline void expect_check_finds_nothing(Rig& rig, LaneThreads& threads, Driver driver,
                                       std::size_t depth, bool pulled = false) {
  const PayloadRun run{.driver = driver, .depth = depth, .run_ahead = 2, .pulled = pulled};
  OrderCheck check(rig.lanes().size(), depth, depth + run.run_ahead);
  ScheduleProbe probe = random_delays(rig, 4);
  probe.check = &check;
  run_payload(rig, threads, run, &probe);
  EXPECT_THAT(check.violations(), ::testing::IsEmpty());
}

inline void expect_check_misses_waits(Rig& rig, LaneThreads& threads, Driver driver,
                                      std::size_t depth, bool pulled = false) {
  const std::size_t lanes = rig.lanes().size();
  for (const WaitId& wait : all_waits(lanes)) {
    const PayloadRun run{.driver = driver, .depth = depth, .pulled = pulled};
    OrderCheck check(lanes, depth, depth + run.run_ahead);
    ScheduleProbe probe = without(wait);
    probe.check = &check;
    run_payload(rig, threads, run, &probe);
    EXPECT_EQ(check.violations().empty(), implied(wait, lanes, depth))
        << "without the " << to_string(wait);
  }
}

/// Not used for host lanes: there the host's own waits keep the order. race_probe leaves these out,
/// too.
inline void expect_digest_misses_waits(Rig& rig, LaneThreads& threads, Driver driver,
                                       std::size_t depth, bool pulled = false) {
  const std::size_t lanes = rig.lanes().size();
  for (const WaitId& wait : all_waits(lanes)) {
    const ScheduleProbe probe = without(wait);
    PayloadRun run{.driver = driver, .depth = depth, .pulled = pulled};
    if (!implied(wait, lanes, depth)) run.hold = hold_against(wait, lanes, depth);
    const std::uint64_t digest = run_payload(rig, threads, run, &probe);
    EXPECT_EQ(digest == serial_digest(run.batches), implied(wait, lanes, depth))
        << "without the " << to_string(wait);
  }
}

}  // namespace slipstream::test
