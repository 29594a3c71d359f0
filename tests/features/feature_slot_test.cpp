#include "features/feature_slot.h"

#include <gtest/gtest.h>

namespace slipstream {
namespace {

std::vector<FeatureSlot> slots(std::size_t count, std::uint64_t first, std::uint64_t seed) {
  std::vector<FeatureSlot> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    made[i] = {{10 + i, 1}, static_cast<std::int64_t>(i), 100 + i, 0};
    made[i].check = made[i].expected_check(seed, first + i);
  }
  return made;
}

TEST(FeatureSlotTest, ValidSlotsHaveTheirPositions) {
  const auto made = slots(4, 30, 7);
  const auto found = parse_feature_slots(std::as_bytes(std::span(made)), 30, 7);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[2].position, 32U);
  EXPECT_EQ(found[2].slot.entry, (FeatureEntry{12, 1}));
  EXPECT_EQ(found[2].slot.index, 2);
  EXPECT_EQ(found[2].slot.digest, 102U);
}

TEST(FeatureSlotTest, SlotsOfOtherKeyOrPositionAreLeftOut) {
  const auto made = slots(4, 30, 7);
  EXPECT_TRUE(parse_feature_slots(std::as_bytes(std::span(made)), 30, 8).empty());
  EXPECT_TRUE(parse_feature_slots(std::as_bytes(std::span(made)), 31, 7).empty());
}

TEST(FeatureSlotTest, EmptyAndIncompleteSlotsAreLeftOut) {
  auto made = slots(3, 0, 7);
  made[1] = {};
  const auto bytes = std::as_bytes(std::span(made)).first(3 * sizeof(FeatureSlot) - 1);
  const auto found = parse_feature_slots(bytes, 0, 7);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].position, 0U);
}

}  // namespace
}  // namespace slipstream
