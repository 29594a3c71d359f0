#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "slipstream/datasets/dataset.h"
#include "support/image_records.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

struct SampleLevels {
  Levels image;
  Levels label;
};

SampleLevels read_levels(const SyntheticOptions& options, std::size_t index) {
  Sample sample;
  synthetic_segmentation(options)->read(index, sample);
  return {copy_levels(sample.fields.at(0).array), copy_levels(sample.fields.at(1).array)};
}

TEST(Synthetic, HasImageAndMaskFields) {
  const auto dataset = synthetic_segmentation({.samples = 5, .size = 32, .classes = 4, .seed = 1});
  EXPECT_EQ(dataset->size(), 5u);
  const auto fields = dataset->fields();
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].name, "image");
  EXPECT_EQ(fields[0].kind, FieldKind::image);
  EXPECT_EQ(fields[0].shape, Shape({32, 32, 3}));
  EXPECT_EQ(fields[1].name, "label");
  EXPECT_EQ(fields[1].kind, FieldKind::mask);
  EXPECT_EQ(fields[1].shape, Shape({32, 32}));
  EXPECT_EQ(fields[1].classes, 4);
}

TEST(Synthetic, SamplesMatchTheFieldSpecs) {
  const auto dataset = synthetic_segmentation({.samples = 1, .size = 5, .classes = 3, .seed = 1});
  Sample sample;
  dataset->read(0, sample);
  const auto fields = dataset->fields();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(sample.fields[i].array.view().shape, fields[i].shape);
    EXPECT_EQ(sample.fields[i].array.view().dtype, fields[i].dtype);
    EXPECT_FALSE(sample.fields[i].encoded);
  }
}

TEST(Synthetic, SamplesDependOnlyOnSeedAndIndex) {
  const SyntheticOptions options{.samples = 10, .size = 16, .classes = 10, .seed = 3};
  SyntheticOptions other = options;
  other.seed = 4;
  EXPECT_EQ(read_levels(options, 7).image, read_levels(options, 7).image);
  EXPECT_EQ(read_levels(options, 7).label, read_levels(options, 7).label);
  EXPECT_NE(read_levels(options, 7).image, read_levels(options, 8).image);
  EXPECT_NE(read_levels(options, 7).label, read_levels(options, 8).label);
  EXPECT_NE(read_levels(options, 7).image, read_levels(other, 7).image);
  EXPECT_NE(read_levels(options, 7).label, read_levels(other, 7).label);
}

TEST(Synthetic, LevelsAndClassesAreUniform) {
  const SampleLevels drawn = read_levels({.samples = 1, .size = 256, .classes = 10, .seed = 1}, 0);
  std::vector<int> levels(256), classes(10);
  for (const std::uint8_t level : drawn.image) ++levels[level];
  for (const std::uint8_t number : drawn.label) ++classes.at(number);
  // The limits are six standard deviations of the counts: 768 per level, 6554 per class.
  EXPECT_THAT(levels, testing::Each(AllOf(testing::Gt(768 - 166), testing::Lt(768 + 166))));
  EXPECT_THAT(classes, testing::Each(AllOf(testing::Gt(6554 - 461), testing::Lt(6554 + 461))));
}

TEST(Synthetic, LabelsAreBelowTheClassCount) {
  for (const std::int64_t classes : {1, 2, 255, 256}) {
    const SampleLevels drawn =
        read_levels({.samples = 1, .size = 64, .classes = classes, .seed = 1}, 0);
    EXPECT_THAT(drawn.label, testing::Each(testing::Lt(classes)));
  }
}

TEST(Synthetic, InvalidOptionsAreAllReported) {
  const SyntheticOptions wrong{.samples = 0, .size = 0, .classes = 257, .seed = 1};
  EXPECT_THAT(thrown_by([&] { synthetic_segmentation(wrong); }),
              AllOf(StartsWith("Refused: "), HasSubstr("samples is 0"), HasSubstr("size is 0"),
                    HasSubstr("classes is 257")));
}

}  // namespace
}  // namespace slipstream
