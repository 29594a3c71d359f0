#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/payload.h"
#include "slipstream/order_check.h"
#include "slipstream/schedule.h"

// Each wait is left out in turn. One that guards something must be missed: by the check of the
// order, whatever happened, and by the digest, when lanes are delayed against it.

namespace slipstream::test {
namespace {

class OrderTest : public ::testing::TestWithParam<Combo> {
 protected:
  ScheduleProbe without(const WaitId& wait) {
    ScheduleProbe probe;
    probe.skip = [wait](const WaitId& id) { return id == wait; };
    return probe;
  }
  bool implied(const WaitId& wait) {
    const auto waits = implied_waits(GetParam().lanes, GetParam().depth);
    return std::find(waits.begin(), waits.end(), wait) != waits.end();
  }

  LaneThreads threads_;
  CpuRig<RelaxedCell> rig_{GetParam().kind, GetParam().lanes, GetParam().depth};
};

INSTANTIATE_TEST_SUITE_P(All, OrderTest, ::testing::ValuesIn(combos()), kComboName);

TEST_P(OrderTest, TheCheckMissesEachWaitThatIsNotImplied) {
  for (const WaitId& wait : all_waits(GetParam().lanes)) {
    SCOPED_TRACE("without the " + to_string(wait));
    OrderCheck check(GetParam().lanes, GetParam().depth, GetParam().depth + 1);
    ScheduleProbe probe = without(wait);
    probe.check = &check;
    run_payload(rig_, threads_, {.driver = GetParam().driver, .depth = GetParam().depth}, &probe);
    if (implied(wait)) {
      EXPECT_THAT(check.violations(), ::testing::IsEmpty());
    } else {
      EXPECT_THAT(check.violations(), ::testing::Not(::testing::IsEmpty()));
    }
  }
}

TEST_P(OrderTest, TheCheckFindsNothingWhenNoWaitIsMissing) {
  OrderCheck check(GetParam().lanes, GetParam().depth, GetParam().depth + 2);
  ScheduleProbe probe = random_delays(rig_, 4);
  probe.check = &check;
  run_payload(rig_, threads_,
              {.driver = GetParam().driver, .depth = GetParam().depth, .run_ahead = 2}, &probe);
  EXPECT_THAT(check.violations(), ::testing::IsEmpty());
}

TEST_P(OrderTest, TheDigestMissesEachWaitThatIsNotImplied) {
  if (GetParam().kind == Kind::host) return;  // race_probe's: here the host's own order holds
  for (const WaitId& wait : all_waits(GetParam().lanes)) {
    SCOPED_TRACE("without the " + to_string(wait));
    const ScheduleProbe probe = without(wait);
    PayloadRun run{.driver = GetParam().driver, .depth = GetParam().depth};
    if (!implied(wait)) run.hold = hold_against(wait, GetParam().lanes, GetParam().depth);
    const std::uint64_t digest = run_payload(rig_, threads_, run, &probe);
    EXPECT_EQ(digest == serial_digest(run.batches), implied(wait));
  }
}

}  // namespace
}  // namespace slipstream::test
