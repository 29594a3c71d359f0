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
  // under TSan this alone proves the order
  CpuRig<PlainCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_serial_under_random_delays(rig, threads_, combo_.driver, combo_.depth);
}

TEST_P(OrderTest, CheckReportsNothingWithAllWaits) {
  CpuRig<PlainCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_check_finds_nothing(rig, threads_, combo_.driver, combo_.depth);
}

TEST_P(OrderTest, CheckReportsEachMissingRequiredWait) {
  CpuRig<RelaxedCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_check_misses_waits(rig, threads_, combo_.driver, combo_.depth);
}

/// Only fake lanes: host lanes execute their work at once, so the thread keeps the order even
/// without a wait.
class FakeLaneOrderTest : public OrderTest {};

INSTANTIATE_TEST_SUITE_P(All, FakeLaneOrderTest, ::testing::ValuesIn(only(combos(), is_fake)),
                         kComboName);

TEST_P(FakeLaneOrderTest, DigestDiffersWithoutEachRequiredWait) {
  CpuRig<RelaxedCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_digest_misses_waits(rig, threads_, combo_.driver, combo_.depth);
}

/// Host lanes on threads; the parameter is the number of lanes. A skipped wait is skipped on the
/// host as well, where the schedule alone orders the threads.
class HostThreadsOrderTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  OrderCheck fresh_check() const { return {lanes_, depth_, depth_ + PayloadRun{}.batches}; }

  const std::size_t lanes_ = GetParam(), depth_ = probe_depth(lanes_);
};

INSTANTIATE_TEST_SUITE_P(All, HostThreadsOrderTest, ::testing::Values(2, 3, 4),
                         ::testing::PrintToStringParamName());

TEST_P(HostThreadsOrderTest, ResultIsSerialWithAllRequiredWaits) {
  std::vector<std::optional<WaitId>> skips = {std::nullopt};
  for (const WaitId& wait : implied_waits(lanes_, depth_)) skips.emplace_back(wait);
  ASSERT_GT(skips.size(), 1U);
  for (const std::optional<WaitId>& skip : skips) {
    SCOPED_TRACE(skip ? "without the " + to_string(*skip) : "with all waits");
    EXPECT_TRUE(run_without<PlainCell>(lanes_, skip, nullptr));
    OrderCheck check = fresh_check();
    EXPECT_TRUE(run_without<PlainCell>(lanes_, skip, &check));
    EXPECT_THAT(check.violations(), ::testing::IsEmpty());
  }
}

TEST_P(HostThreadsOrderTest, CheckReportsEachMissingRequiredWait) {
  std::size_t tried = 0;
  for (const WaitId& wait : all_waits(lanes_)) {
    if (implied(wait, lanes_, depth_)) continue;
    OrderCheck check = fresh_check();
    run_without<RelaxedCell>(lanes_, wait, &check);
    EXPECT_THAT(check.violations(), ::testing::Not(::testing::IsEmpty())) << to_string(wait);
    ++tried;
  }
  EXPECT_GE(tried, lanes_)
      << "the handoff to each later lane and at least one slot wait are required";
}

/// The caller is the last lane. Either its thread enqueues everything, or the lanes between the
/// first and the last have threads, or, if depth equals the number of lanes, every second lane has
/// one.
class PulledOrderTest : public ::testing::TestWithParam<Combo> {
 protected:
  const Combo& combo_ = GetParam();
  LaneThreads threads_;
};

std::vector<Combo> pulled_combos() {
  return only(combos(), [](const Combo& each) {
    const bool has_threads = each.lanes > 2 || each.lanes == each.depth;
    return each.lanes >= 2 && (each.driver != Driver::threaded || has_threads);
  });
}

INSTANTIATE_TEST_SUITE_P(All, PulledOrderTest, ::testing::ValuesIn(pulled_combos()), kComboName);

TEST_P(PulledOrderTest, PayloadEqualsSerialUnderRandomDelays) {
  CpuRig<PlainCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_serial_under_random_delays(rig, threads_, combo_.driver, combo_.depth, true);
}

TEST_P(PulledOrderTest, CheckReportsNothingWithAllWaits) {
  CpuRig<PlainCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_check_finds_nothing(rig, threads_, combo_.driver, combo_.depth, true);
}

TEST_P(PulledOrderTest, CheckReportsEachMissingRequiredWait) {
  CpuRig<RelaxedCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_check_misses_waits(rig, threads_, combo_.driver, combo_.depth, true);
}

class PulledFakeLaneOrderTest : public PulledOrderTest {};

INSTANTIATE_TEST_SUITE_P(All, PulledFakeLaneOrderTest,
                         ::testing::ValuesIn(only(pulled_combos(), is_fake)), kComboName);

TEST_P(PulledFakeLaneOrderTest, DigestDiffersWithoutEachRequiredWait) {
  CpuRig<RelaxedCell> rig(combo_.kind, combo_.lanes, combo_.depth);
  expect_digest_misses_waits(rig, threads_, combo_.driver, combo_.depth, true);
}

}  // namespace
}  // namespace slipstream::test
