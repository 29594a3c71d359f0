#include "core/order_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace slipstream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> names(const std::vector<WaitId>& waits) {
  std::vector<std::string> result;
  for (const WaitId& wait : waits) result.push_back(to_string(wait));
  return result;
}

TEST(OrderCheck, AllWaitsListsSlotAndHandoffWaits) {
  EXPECT_THAT(names(all_waits(1)), ElementsAre("slot wait of lane 0"));
  EXPECT_THAT(names(all_waits(3)),
              ElementsAre("slot wait of lane 0", "slot wait of lane 1", "handoff wait of lane 1",
                          "slot wait of lane 2", "handoff wait of lane 2"));
}

// The expected values are the table in docs/streams.md.
TEST(OrderCheck, ImpliedWaitsMatchTheDocumentedTable) {
  const std::vector<std::vector<std::string>> golden = {
      {"slot wait of lane 0"},
      {"slot wait of lane 1"},
      {"slot wait of lane 2"},
      {"slot wait of lane 2", "slot wait of lane 3"}};
  for (std::size_t lanes = 1; lanes <= 4; ++lanes) {
    for (std::size_t depth = lanes; depth <= lanes + 2; ++depth) {
      SCOPED_TRACE(std::to_string(lanes) + " lanes, depth " + std::to_string(depth));
      EXPECT_EQ(names(implied_waits(lanes, depth)), golden[lanes - 1]);
    }
  }
}

TEST(OrderCheck, AllWaitsPresentGiveNoViolation) {
  OrderCheck check(2, 2, 3);
  for (std::uint64_t batch = 0; batch < 20; ++batch) {
    for (std::size_t lane = 0; lane < 2; ++lane) {
      if (batch >= 2) check.wait(lane, 1, batch - 2);
      check.drop(lane, batch);
      if (lane == 1) check.wait(1, 0, batch);
      check.run(lane, batch);
      check.record(lane, batch);
    }
  }
  EXPECT_THAT(check.violations(), IsEmpty());
}

TEST(OrderCheck, ReadWithoutWaitForWriterIsReported) {
  OrderCheck check(2, 2, 3);
  check.drop(0, 0);
  check.run(0, 0);
  check.record(0, 0);
  check.run(1, 0);
  EXPECT_THAT(check.violations(), ElementsAre("lane 1, batch 0 reads what lane 0 may not have "
                                              "written yet"));
}

TEST(OrderCheck, ReadOfUnwrittenSlotIsReported) {
  OrderCheck check(2, 2, 3);
  check.run(1, 0);
  EXPECT_THAT(check.violations(), ElementsAre(HasSubstr("may not have written yet")));
}

TEST(OrderCheck, DropWithoutWaitForReaderIsReported) {
  OrderCheck check(2, 2, 3);
  check.run(0, 0);
  check.record(0, 0);
  check.wait(1, 0, 0);
  check.run(1, 0);
  check.record(1, 0);
  check.drop(0, 2);
  EXPECT_THAT(check.violations(),
              ElementsAre("lane 0, batch 2, drops its part of the slot while lane 1 may still "
                          "read it"));
}

TEST(OrderCheck, WaitForAnEarlierRecordingIsNotEnough) {
  OrderCheck check(2, 2, 3);
  for (std::uint64_t batch = 0; batch < 2; ++batch) {
    check.run(0, batch);
    check.record(0, batch);
  }
  check.wait(1, 0, 0);
  check.run(1, 0);
  EXPECT_THAT(check.violations(), IsEmpty());
  check.run(1, 1);
  EXPECT_EQ(check.violations().size(), 1u);
}

TEST(OrderCheck, DrainReplacesWaitsForEarlierAccesses) {
  OrderCheck check(2, 2, 3);
  check.run(0, 0);
  check.record(0, 0);
  check.wait(1, 0, 0);
  check.run(1, 0);
  check.drained();
  check.drop(0, 0);
  EXPECT_THAT(check.violations(), IsEmpty());
  check.run(1, 0);
  EXPECT_EQ(check.violations().size(), 1u);
}

TEST(OrderCheck, WaitForAnUnrecordedMarkThrows) {
  OrderCheck check(2, 2, 3);
  EXPECT_THROW(check.wait(1, 0, 0), std::logic_error);
}

}  // namespace
}  // namespace slipstream
