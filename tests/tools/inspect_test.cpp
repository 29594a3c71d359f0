#include "tools/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "core/files.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"
#include "support/image_records.h"
#include "support/temporary_folder.h"
#include "tools/make_data.h"

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
    options.gray_share = 0.3;
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
    EXPECT_EQ(mask.classes.at(0), 9U);  // every scene has background
    EXPECT_LT(mask.classes.rbegin()->first, 10);
  }
}

TEST_F(InspectTest, DamagedSamplesAreListedAndNotCounted) {
  damage("000003.jpg", 200);
  damage("000007.jpg", 0);
  const Inspection found = inspection();
  ASSERT_EQ(found.damaged.size(), 2U);
  EXPECT_EQ(found.damaged[0].sample, 3U);
  EXPECT_THAT(found.damaged[0].name, HasSubstr("000003.jpg"));
  EXPECT_EQ(found.damaged[1].sample, 7U);
  EXPECT_THAT(found.fields[0].stored, UnorderedElementsAre(Pair("JPEG", 7)));
  EXPECT_THAT(to_text(found),
              AllOf(HasSubstr("9 samples, 2 bad"), HasSubstr("7 JPEG"),
                    HasSubstr("shapes 24 x 24 x 3 to 40 x 40 x 3"), HasSubstr("bad: sample 3 (")));
}

TEST_F(InspectTest, ControlCharactersInNamesAreEscaped) {
  fs::rename(folder_.path() / "images" / "000003.jpg", folder_.path() / "images" / "\x1b[2J.jpg");
  fs::rename(folder_.path() / "masks" / "000003.png", folder_.path() / "masks" / "\x1b[2J.png");
  damage("\x1b[2J.jpg", 200);
  EXPECT_THAT(to_text(inspection()), AllOf(HasSubstr("\\x1b[2J.jpg"), Not(HasSubstr("\x1b"))));
}

TEST_F(InspectTest, TextReportsOneAndZeroSamples) {
  const auto labels = [](std::int64_t samples) {
    HostArray values;
    const MutableArray out = values.reset(DType::uint8, {samples});
    std::fill_n(out.data, out.bytes(), std::byte{1});
    return tensor_dataset({{"label", FieldKind::label, values, 2}});
  };
  EXPECT_THAT(to_text(inspect(*labels(1))), AllOf(HasSubstr("1 sample, 0 bad"), HasSubstr("1: 1")));
  EXPECT_EQ(to_text(inspect(*labels(0))), "0 samples, 0 bad\n");
}

TEST_F(InspectTest, ClassOutOfRangeIsReportedAsDamage) {
  const Inspection found = inspect(*segmentation_folder(folder_.path(), 2), {});
  ASSERT_FALSE(found.damaged.empty());
  EXPECT_THAT(found.damaged.front().message, HasSubstr("but there are 2 classes, 0 to 1"));
}

HostArray zeros(DType dtype, const Shape& shape) {
  HostArray values;
  const MutableArray out = values.reset(dtype, shape);
  std::fill_n(out.data, out.bytes(), std::byte{0});
  return values;
}

std::vector<std::string> find_damage(std::vector<ArrayField> fields) {
  std::vector<std::string> messages;
  for (const DamagedSample& each : inspect(*tensor_dataset(std::move(fields))).damaged)
    messages.push_back(each.message);
  return messages;
}

TEST_F(InspectTest, NegativeClassIsDamageEvenWithoutAClassCount) {
  HostArray labels = zeros(DType::int32, {2});
  labels.span().as<std::int32_t>()[1] = -3;
  EXPECT_THAT(find_damage({{"label", FieldKind::label, labels, 0}}),
              ElementsAre(HasSubstr("'label' holds class -3; class indices start at 0")));
  HostArray masks = zeros(DType::int64, {1, 4, 4});
  masks.span().as<std::int64_t>()[5] = -1;
  EXPECT_THAT(find_damage({{"label", FieldKind::mask, masks, 0}}),
              ElementsAre(HasSubstr("holds class -1")));
}

TEST_F(InspectTest, MaskSizeDifferentFromImageIsReportedAsDamage) {
  EXPECT_THAT(find_damage({{"image", FieldKind::image, zeros(DType::uint8, {1, 6, 4, 3}), 0},
                           {"label", FieldKind::mask, zeros(DType::uint8, {1, 4, 6}), 0}}),
              ElementsAre(AllOf(HasSubstr("mask 'label' is 4 x 6"), HasSubstr("6 x 4 x 3"))));
}

TEST_F(InspectTest, ImageWithoutPixelsIsReportedAsDamage) {
  EXPECT_THAT(find_damage({{"image", FieldKind::image, zeros(DType::uint8, {2, 0, 4, 3}), 0}}),
              ElementsAre(HasSubstr("'image' has no pixels"), HasSubstr("0 x 4 x 3")));
}

TEST_F(InspectTest, StopOmitsTheRemainingSamples) {
  std::atomic<int> asked = 0;
  InspectOptions options{.threads = 1};
  options.stop = [&] { return ++asked > 4; };
  const Inspection found = inspect(*segmentation_folder(folder_.path(), 10), options);
  EXPECT_EQ(found.inspected, 4U);
  EXPECT_THAT(to_text(found), HasSubstr("9 samples, 4 inspected"));
}

TEST_F(InspectTest, TextListsClassNamesWithZeroSamples) {
  const fs::path data = folder_.path() / "classes";
  for (const char* name : {"cat", "dog"}) {
    fs::create_directories(data / name);
    fs::copy_file(folder_.path() / "images" / "000000.jpg", data / name / "1.jpg");
  }
  fs::copy_file(folder_.path() / "images" / "000001.jpg", data / "dog" / "2.jpg");
  const Inspection found = inspect(*open_dataset(data, {"dog", "hen", "cat"}));
  EXPECT_THAT(found.fields[1].class_names, ElementsAre("dog", "hen", "cat"));
  EXPECT_THAT(found.labels, ElementsAre(0, 0, 2));
  EXPECT_THAT(to_text(found),
              HasSubstr("samples of each class: 0 'dog': 2, 1 'hen': 0, 2 'cat': 1\n"));
}

TEST_F(InspectTest, SingleClassIsRemarked) {
  const auto remarks = [](std::vector<std::uint8_t> labels) {
    HostArray values;
    const MutableArray out = values.reset(DType::uint8, {static_cast<std::int64_t>(labels.size())});
    std::copy(labels.begin(), labels.end(), out.as<std::uint8_t>());
    return inspect(*tensor_dataset({{"label", FieldKind::label, values, 0}})).remarks;
  };
  EXPECT_THAT(remarks({3, 3}), ElementsAre(HasSubstr("all samples are of one class, '3'")));
  EXPECT_THAT(remarks({3, 4}), ElementsAre());
  EXPECT_THAT(remarks({3}), ElementsAre());
}

TEST_F(InspectTest, TransparentImagesAreCountedAndRemarked) {
  const auto put = [&](const char* to, const char* record) {
    fs::create_directories(folder_.path() / "drawn" / "a");
    write_file_atomically(folder_.path() / "drawn" / "a" / to, image_record(record).file);
  };
  put("1.png", "rgba.png");
  put("2.png", "gray_alpha.png");
  put("3.png", "rgb.png");
  put("4.jpg", "rgb_420.jpg");
  const Inspection found = inspect(*image_folder(folder_.path() / "drawn"));
  EXPECT_EQ(found.fields[0].transparent, 2U);
  EXPECT_THAT(found.remarks,
              testing::Contains(AllOf(HasSubstr("2 images of 'image' have transparent pixels"),
                                      HasSubstr("composites over black"),
                                      HasSubstr("train with --background"))));
  EXPECT_EQ(inspection().fields[0].transparent, 0U);
}

}  // namespace
}  // namespace slipstream
