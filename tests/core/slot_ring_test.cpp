#include "core/slot_ring.h"

#include <gtest/gtest.h>

#include <memory>

namespace slipstream {
namespace {

TEST(SlotRing, BatchesUseSlotsInTurn) {
  SlotRing<int> ring(3);
  EXPECT_EQ(ring.depth(), 3u);
  for (std::uint64_t batch = 0; batch < 9; ++batch) {
    EXPECT_EQ(ring.slot_index(batch), batch % 3);
    ring.of(batch) += 1;
    EXPECT_EQ(&ring.of(batch), &ring.slot(batch % 3));
  }
  for (int count : ring) EXPECT_EQ(count, 3);
}

TEST(SlotRing, BatchIndexMayExceed32Bits) {
  SlotRing<int> ring(7);
  const std::uint64_t batch = 0xffff'ffff'ffff'ffffu;
  EXPECT_EQ(ring.slot_index(batch), batch % 7);
}

TEST(SlotRing, HoldsMoveOnlyValues) {
  SlotRing<std::unique_ptr<int>> ring(2);
  ring.of(5) = std::make_unique<int>(5);
  EXPECT_EQ(ring.of(4), nullptr);
  EXPECT_EQ(*ring.of(7), 5);
}

TEST(SlotRing, ZeroSlotsThrows) { EXPECT_THROW(SlotRing<int>(0), std::logic_error); }

}  // namespace
}  // namespace slipstream
