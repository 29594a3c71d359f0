#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "slipstream/datasets/datasets.h"
#include "support/array_values.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(InMemory, ReadReturnsTheSamplesSliceOfEveryArray) {
  std::vector<ArrayField> fields;
  fields.push_back({"image", FieldKind::image, counting<std::uint8_t>(DType::uint8, {2, 1, 2, 3})});
  fields.push_back({"label", FieldKind::label, counting<std::int64_t>(DType::int64, {2}), 10});
  fields.push_back({"extra", FieldKind::other, counting<float>(DType::float32, {2, 2})});
  const auto dataset = tensor_dataset(std::move(fields));
  ASSERT_EQ(dataset->size(), 2u);
  const auto specs = dataset->fields();
  EXPECT_EQ(specs[0].shape, Shape({1, 2, 3}));
  EXPECT_EQ(specs[1].shape, Shape());
  EXPECT_EQ(specs[1].classes, 10);
  EXPECT_EQ(specs[2].dtype, DType::float32);
  Sample sample;
  dataset->read(1, sample);
  EXPECT_THAT(copy_values<std::uint8_t>(sample.fields[0]), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(copy_values<std::int64_t>(sample.fields[1]), ElementsAre(1));
  EXPECT_THAT(copy_values<float>(sample.fields[2]), ElementsAre(2, 3));
  EXPECT_EQ(sample.fields[0].array.view().shape, specs[0].shape);
}

TEST(InMemory, InvalidFieldsAreAllReported) {
  std::vector<ArrayField> fields;
  fields.push_back({"x", FieldKind::image, counting<float>(DType::float32, {2, 1, 2, 3})});
  fields.push_back({"x", FieldKind::label, counting<float>(DType::float32, {3})});
  fields.push_back({"", FieldKind::mask, counting<std::uint8_t>(DType::uint8, {2, 2})});
  EXPECT_THAT(
      thrown_by([&] { tensor_dataset(std::move(fields)); }),
      AllOf(StartsWith("Refused: "),
            HasSubstr("field 'x' is float32 of 2 x 1 x 2 x 3: images are uint8"),
            HasSubstr("two fields are called 'x'"), HasSubstr("labels are uint8, int32 or int64"),
            HasSubstr("has 3 samples, but field 'x' has 2"), HasSubstr("masks are"),
            HasSubstr("no field name")));
  EXPECT_THAT(thrown_by([] { tensor_dataset({}); }), StartsWith("Refused: no fields"));
}

}  // namespace
}  // namespace slipstream
