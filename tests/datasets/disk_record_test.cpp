#include "datasets/disk_record.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace slipstream {
namespace {

std::vector<StoredForm> two_fields() {
  StoredForm image;
  image.encoded = 1;
  image.rank = 1;
  image.dims = {100};
  StoredForm label;
  label.dtype = static_cast<std::uint32_t>(DType::int64);
  return {image, label};
}
constexpr std::uint64_t kBytes = 2 * 40 + 100 + 8;

TEST(DiskRecord, ParseReturnsStoredFields) {
  const auto form = RecordForm::parse(two_fields(), kBytes);
  ASSERT_TRUE(form.has_value());
  EXPECT_TRUE(form->fields[0].encoded);
  EXPECT_EQ(form->fields[0].shape, Shape({100}));
  EXPECT_EQ(form->fields[1].dtype, DType::int64);
  EXPECT_EQ(form->fields[1].shape, Shape{});
}

TEST(DiskRecord, ParseFailsUnlessFieldsFillTheRecord) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{79}, kBytes - 1, kBytes + 1}) {
    EXPECT_FALSE(RecordForm::parse(two_fields(), bytes).has_value()) << bytes;
  }
}

TEST(DiskRecord, ParseFailsForInvalidTypeRankOrShape) {
  constexpr std::int64_t kLarge = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::function<void(StoredForm&)>> damages = {
      [](StoredForm& form) { form.dtype = 4; },
      [](StoredForm& form) { form.encoded = 2; },
      [](StoredForm& form) { form.rank = 5; },
      [](StoredForm& form) { form.dims[0] = -100; },
      [](StoredForm& form) {
        form = {.rank = 3, .dims = {kLarge, kLarge, 100}};
      },
      [](StoredForm& form) {
        form = {.rank = 4, .dims = {1 << 16, 1 << 16, 1 << 16, 1 << 16}};
      },
  };
  for (std::size_t i = 0; i < damages.size(); ++i) {
    std::vector<StoredForm> head = two_fields();
    damages[i](head[0]);
    EXPECT_FALSE(RecordForm::parse(head, kBytes).has_value()) << i;
  }
}

TEST(DiskRecord, SlotCheckDependsOnSampleDatasetAndEveryValue) {
  const RecordSlot slot = {1, 2, 3, 0};
  const std::uint64_t check = slot.expected_check(5, 6);
  EXPECT_NE(check, slot.expected_check(5, 7));
  EXPECT_NE(check, slot.expected_check(4, 6));
  EXPECT_NE(check, (RecordSlot{2, 2, 3, 0}).expected_check(5, 6));
  EXPECT_NE(check, (RecordSlot{1, 3, 3, 0}).expected_check(5, 6));
  EXPECT_NE(check, (RecordSlot{1, 2, 4, 0}).expected_check(5, 6));
  EXPECT_NE(RecordSlot{}.expected_check(5, 6), 0U);
}

}  // namespace
}  // namespace slipstream
