#include "features/feature_index.h"

#include <gtest/gtest.h>

namespace slipstream {
namespace {

TEST(FeatureIndexTest, FindsEveryEntryAfterGrowing) {
  FeatureIndex index;
  for (std::uint64_t i = 0; i < 20'000; ++i)
    EXPECT_TRUE(index.add({.entry = {i / 4, i % 4}, .position = i}));
  EXPECT_EQ(index.size(), 20'000U);
  for (std::uint64_t i = 0; i < 20'000; ++i)
    EXPECT_EQ(index.find({i / 4, i % 4}), static_cast<std::int64_t>(i));
  EXPECT_EQ(index.find({5'000, 0}), -1);
  EXPECT_EQ(index.find({0, 4}), -1);
}

TEST(FeatureIndexTest, SecondRecordOfEntryIsNotAdded) {
  FeatureIndex index;
  EXPECT_TRUE(index.add({.entry = {1, 2}, .position = 5}));
  EXPECT_FALSE(index.add({.entry = {1, 2}, .position = 6}));
  EXPECT_EQ(index.size(), 1U);
  EXPECT_EQ(index.records()[0].position, 5U);
}

TEST(FeatureIndexTest, ForgottenEntryCanBeAddedAgain) {
  FeatureIndex index;
  index.add({.entry = {1, 0}, .position = 5});
  index.forget(0);
  index.forget(0);
  EXPECT_EQ(index.size(), 0U);
  EXPECT_EQ(index.find({1, 0}), -1);
  EXPECT_TRUE(index.add({.entry = {1, 0}, .position = 6}));
  EXPECT_EQ(index.find({1, 0}), 1);
  EXPECT_EQ(index.size(), 1U);
  for (std::uint64_t i = 2; i < 3000; ++i) index.add({.entry = {i, 0}, .position = i});
  EXPECT_EQ(index.find({1, 0}), 1);
}

}  // namespace
}  // namespace slipstream
