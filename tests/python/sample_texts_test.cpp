#include "bindings/sample_texts.h"

#include <gtest/gtest.h>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using TextSlots = std::vector<SampleTexts::TextSlot>;

std::vector<std::string> take(SampleTexts& texts, const TextSlots& places) {
  return texts.take(reinterpret_cast<const std::byte*>(places.data()), places.size());
}

TEST(SampleTexts, TakeReturnsTextsInRequestedOrder) {
  SampleTexts texts;
  const TextSlots read = {texts.put(0, "a"), texts.put(0, std::string(100'000, 'b')),
                          texts.put(0, "a")};
  const std::vector<std::string> expected = {"a", "a", std::string(100'000, 'b')};
  EXPECT_EQ(take(texts, {read[2], read[0], read[1]}), expected);
}

TEST(SampleTexts, TakingATextTwiceThrows) {
  SampleTexts texts;
  const TextSlots read = {texts.put(0, "a"), texts.put(0, "b")};
  EXPECT_EQ(take(texts, {read[0]}).size(), 1u);
  EXPECT_THROW(take(texts, {read[0]}), Error);
  EXPECT_EQ(take(texts, {read[1]}).size(), 1u);
  const TextSlots later = {texts.put(0, "c")};
  texts.clear();
  EXPECT_THROW(take(texts, later), Error);
}

TEST(SampleTexts, TextsOfEarlierEpochsAreDropped) {
  SampleTexts texts;
  const TextSlots read = {texts.put(1, "of no batch"), texts.put(2, "a"), texts.put(2, "b"),
                          texts.put(3, "c")};
  EXPECT_EQ(take(texts, {read[1]}), std::vector<std::string>{"a"});
  EXPECT_THROW(take(texts, {read[0]}), Error);
  EXPECT_EQ(take(texts, {read[2]}), std::vector<std::string>{"b"});
  EXPECT_EQ(take(texts, {read[3]}), std::vector<std::string>{"c"});
}

}  // namespace
}  // namespace slipstream
