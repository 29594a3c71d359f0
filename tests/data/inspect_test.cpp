#include "slipstream/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "slipstream/datasets.h"
#include "slipstream/error.h"
#include "slipstream/make_data.h"
#include "support/temporary_folder.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

class InspectTest : public testing::Test {
 protected:
  void SetUp() override {
    MakeDataOptions options;
    options.samples = 9;
    options.sizes = {24, 40};
    options.grey_share = 0.3;
    make_segmentation_data(folder_.path(), options);
  }

  Inspection inspection(unsigned threads = 2) const {
    return inspect(*segmentation_folder(folder_.path(), 10), {.threads = threads});
  }

  void damage(const char* name, std::size_t keep_bytes) const {
    fs::resize_file(folder_.path() / "images" / name, keep_bytes);
  }

  TemporaryFolder folder_;
};

TEST_F(InspectTest, CountsFormatsSizesAndClasses) {
  for (const unsigned threads : {1U, 4U}) {
    const Inspection found = inspection(threads);
    EXPECT_EQ(found.samples, 9U);
    EXPECT_EQ(found.inspected, 9U);
    EXPECT_TRUE(found.damaged.empty());
    ASSERT_EQ(found.fields.size(), 2U);
    const FieldSummary& image = found.fields[0];
    EXPECT_THAT(image.stored, UnorderedElementsAre(Pair("JPEG", 9)));
    EXPECT_EQ(image.smallest, (Shape{24, 24, 3}));
    EXPECT_EQ(image.largest, (Shape{40, 40, 3}));
    EXPECT_GT(image.stored_bytes, 9U * 100);
    const FieldSummary& mask = found.fields[1];
    EXPECT_THAT(mask.stored, UnorderedElementsAre(Pair("PNG", 9)));
    EXPECT_EQ(mask.classes.at(0), 9U);  // the background is in every scene
    EXPECT_LT(mask.classes.rbegin()->first, 10);
  }
}

TEST_F(InspectTest, NamesWhatIsDamagedAndLeavesItOutOfTheSums) {
  damage("000003.jpg", 200);
  damage("000007.jpg", 0);
  const Inspection found = inspection();
  ASSERT_EQ(found.damaged.size(), 2U);
  EXPECT_EQ(found.damaged[0].sample, 3U);
  EXPECT_THAT(found.damaged[0].name, HasSubstr("000003.jpg"));
  EXPECT_EQ(found.damaged[1].sample, 7U);
  EXPECT_THAT(found.fields[0].stored, UnorderedElementsAre(Pair("JPEG", 7)));
  EXPECT_THAT(to_text(found), AllOf(HasSubstr("9 samples, 2 damaged"), HasSubstr("7 JPEG"),
                                    HasSubstr("shapes 24 x 24 x 3 to 40 x 40 x 3"),
                                    HasSubstr("damaged: sample 3 (")));
}

TEST_F(InspectTest, NamesDoNotCommandTheTerminal) {
  fs::rename(folder_.path() / "images" / "000003.jpg", folder_.path() / "images" / "\x1b[2J.jpg");
  fs::rename(folder_.path() / "masks" / "000003.png", folder_.path() / "masks" / "\x1b[2J.png");
  damage("\x1b[2J.jpg", 200);
  EXPECT_THAT(to_text(inspection()), AllOf(HasSubstr("\\x1b[2J.jpg"), Not(HasSubstr("\x1b"))));
}

TEST_F(InspectTest, OneSampleAndNone) {
  const auto labels = [](std::int64_t samples) {
    HostArray values;
    const MutableArray out = values.reset(DType::u8, {samples});
    std::fill_n(out.data, out.bytes(), std::byte{1});
    return in_memory({{"label", FieldKind::label, values, 2}});
  };
  EXPECT_THAT(to_text(inspect(*labels(1))),
              AllOf(HasSubstr("1 samples, 0 damaged"), HasSubstr("1: 1")));
  EXPECT_EQ(to_text(inspect(*labels(0))), "0 samples, 0 damaged\n");
}

TEST_F(InspectTest, AClassOutOfRangeIsDamage) {
  const Inspection found = inspect(*segmentation_folder(folder_.path(), 2), {});
  ASSERT_FALSE(found.damaged.empty());
  EXPECT_THAT(found.damaged.front().message, HasSubstr("but there are 2"));
}

HostArray zeros(DType dtype, const Shape& shape) {
  HostArray values;
  const MutableArray out = values.reset(dtype, shape);
  std::fill_n(out.data, out.bytes(), std::byte{0});
  return values;
}

std::vector<std::string> damage_of(std::vector<ArrayField> fields) {
  std::vector<std::string> messages;
  for (const DamagedSample& each : inspect(*in_memory(std::move(fields))).damaged)
    messages.push_back(each.message);
  return messages;
}

TEST_F(InspectTest, ANegativeClassIsDamageWithoutANumberOfClasses) {
  HostArray labels = zeros(DType::i32, {2});
  labels.span().as<std::int32_t>()[1] = -3;
  EXPECT_THAT(damage_of({{"label", FieldKind::label, labels, 0}}),
              ElementsAre(HasSubstr("'label' holds class -3; classes are numbered from 0")));
  HostArray masks = zeros(DType::i64, {1, 4, 4});
  masks.span().as<std::int64_t>()[5] = -1;
  EXPECT_THAT(damage_of({{"label", FieldKind::mask, masks, 0}}),
              ElementsAre(HasSubstr("holds class -1")));
}

TEST_F(InspectTest, AMaskOfAnotherSizeThanItsImageIsDamage) {
  EXPECT_THAT(damage_of({{"image", FieldKind::image, zeros(DType::u8, {1, 6, 4, 3}), 0},
                         {"label", FieldKind::mask, zeros(DType::u8, {1, 4, 6}), 0}}),
              ElementsAre(AllOf(HasSubstr("mask 'label' is 4 x 6"), HasSubstr("6 x 4 x 3"))));
}

TEST_F(InspectTest, AnImageWithoutPixelsIsDamage) {
  EXPECT_THAT(damage_of({{"image", FieldKind::image, zeros(DType::u8, {2, 0, 4, 3}), 0}}),
              ElementsAre(HasSubstr("'image' has no pixels"), HasSubstr("0 x 4 x 3")));
}

TEST_F(InspectTest, AStopLeavesTheRestOut) {
  std::atomic<int> asked = 0;
  InspectOptions options{.threads = 1};
  options.stop = [&] { return ++asked > 4; };
  const Inspection found = inspect(*segmentation_folder(folder_.path(), 10), options);
  EXPECT_EQ(found.inspected, 4U);
  EXPECT_THAT(to_text(found), HasSubstr("9 samples, 4 inspected"));
}

TEST_F(InspectTest, TheContactSheetHoldsTheGoodImagesInTheirProportions) {
  damage("000000.jpg", 0);
  const auto dataset = segmentation_folder(folder_.path(), 10);
  const auto sheet = contact_sheet(*dataset, 5, 32);
  EXPECT_EQ(image_shape(sheet), (Shape{64, 96, 3}));  // three columns, two rows
  HostArray pixels;
  decode_rgb(sheet, {}, pixels);
  const auto column_is_black = [&](std::int64_t x, std::int64_t y0, std::int64_t y1) {
    for (std::int64_t y = y0; y < y1; ++y)
      for (std::int64_t c = 0; c < 3; ++c)
        if (pixels.view().data[(y * 96 + x) * 3 + c] != std::byte{0}) return false;
    return true;
  };
  EXPECT_FALSE(column_is_black(48, 32, 64));  // the fifth image
  EXPECT_TRUE(column_is_black(80, 32, 64));   // there is no sixth
}

TEST_F(InspectTest, AContactSheetNeedsAnImage) {
  for (int i = 0; i < 9; ++i) damage(("00000" + std::to_string(i) + ".jpg").c_str(), 0);
  EXPECT_THROW(contact_sheet(*segmentation_folder(folder_.path(), 10)), Error);
}

TEST_F(InspectTest, AContactSheetPassesOverImagesWithoutPixels) {
  HostArray none;
  none.reset(DType::u8, {2, 0, 0, 3});
  EXPECT_THROW(contact_sheet(*in_memory({{"image", FieldKind::image, none, 0}})), Error);
}

}  // namespace
}  // namespace slipstream
