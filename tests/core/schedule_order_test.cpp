#include <gtest/gtest.h>

#include "core/order_cases.h"

namespace slipstream::test {
namespace {

class OrderTest : public ::testing::TestWithParam<Combo> {
 protected:
  const Combo& combo_ = GetParam();
  LaneThreads threads_;
};

INSTANTIATE_TEST_SUITE_P(All, OrderTest, ::testing::ValuesIn(combos()), kComboName);

TEST_P(OrderTest, PayloadEqualsSerialUnderRandomDelays) {
  CpuRig<PlainCell> rig(combo_.kind, combo_.lanes, combo_.depth);  // under TSan a proof by itself
  expect_serial_under_random_delays(rig, threads_, combo_.driver, combo_.depth);
}

TEST_P(OrderTest, TheCheckFindsNothingWhenNoWaitIsMissing) {
  CpuRig<PlainCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_check_finds_nothing(rig, threads_, combo_.driver, combo_.depth);
}

TEST_P(OrderTest, TheCheckMissesEachWaitThatIsNotImplied) {
  CpuRig<RelaxedCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_check_misses_waits(rig, threads_, combo_.driver, combo_.depth);
}

TEST_P(OrderTest, TheDigestMissesEachWaitThatIsNotImplied) {
  if (combo_.kind == Kind::host) return;
  CpuRig<RelaxedCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_digest_misses_waits(rig, threads_, combo_.driver, combo_.depth);
}

/// The caller is the last lane; its thread enqueues everything, or others do what is between, or,
/// where there is a slot for each lane and no more, the work of every other lane from the first on.
class PulledOrderTest : public ::testing::TestWithParam<Combo> {
 protected:
  const Combo& combo_ = GetParam();
  LaneThreads threads_;
};

std::vector<Combo> pulled_combos() {
  std::vector<Combo> some = combos();
  std::erase_if(some, [](const Combo& each) {
    const bool has_threads = each.lanes > 2 || each.lanes == each.depth;
    return each.lanes < 2 || (each.driver == Driver::threaded && !has_threads);
  });
  return some;
}

INSTANTIATE_TEST_SUITE_P(All, PulledOrderTest, ::testing::ValuesIn(pulled_combos()), kComboName);

TEST_P(PulledOrderTest, PayloadEqualsSerialUnderRandomDelays) {
  CpuRig<PlainCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_serial_under_random_delays(rig, threads_, combo_.driver, combo_.depth, true);
}

TEST_P(PulledOrderTest, TheCheckFindsNothingWhenNoWaitIsMissing) {
  CpuRig<PlainCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_check_finds_nothing(rig, threads_, combo_.driver, combo_.depth, true);
}

TEST_P(PulledOrderTest, TheCheckMissesEachWaitThatIsNotImplied) {
  CpuRig<RelaxedCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_check_misses_waits(rig, threads_, combo_.driver, combo_.depth, true);
}

TEST_P(PulledOrderTest, TheDigestMissesEachWaitThatIsNotImplied) {
  if (combo_.kind == Kind::host) return;
  CpuRig<RelaxedCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_digest_misses_waits(rig, threads_, combo_.driver, combo_.depth, true);
}

}  // namespace
}  // namespace slipstream::test
