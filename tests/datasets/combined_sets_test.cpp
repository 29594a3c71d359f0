#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/files.h"
#include "slipstream/datasets/datasets.h"
#include "support/array_values.h"
#include "support/image_records.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::shared_ptr<const Dataset> numbers(std::int64_t samples, std::int64_t width = 1) {
  std::vector<ArrayField> fields;
  fields.push_back({"x", FieldKind::other, counting<std::int32_t>(DType::int32, {samples, width})});
  return tensor_dataset(std::move(fields));
}

std::vector<std::int32_t> firsts(const Dataset& dataset) {
  std::vector<std::int32_t> all;
  Sample sample;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    dataset.read(i, sample);
    all.push_back(copy_values<std::int32_t>(sample.fields[0])[0]);
  }
  return all;
}

TEST(Concatenated, HasSamplesOfAllPartsInOrder) {
  const auto dataset = concat_dataset({numbers(2), numbers(0), numbers(3), numbers(0)});
  EXPECT_THAT(firsts(*dataset), ElementsAre(0, 1, 0, 1, 2));
  EXPECT_EQ(dataset->name(3), "sample 1");
}

TEST(Concatenated, DifferentDimensionBecomesMinusOne) {
  EXPECT_EQ(concat_dataset({numbers(1, 2), numbers(1, 2)})->fields()[0].shape, Shape({2}));
  EXPECT_EQ(concat_dataset({numbers(1, 2), numbers(1, 3)})->fields()[0].shape, Shape({-1}));
}

TEST(Concatenated, PartsWithDifferentFieldsAreRefused) {
  std::vector<ArrayField> other;
  other.push_back({"y", FieldKind::other, counting<std::int32_t>(DType::int32, {1, 1})});
  EXPECT_THAT(
      thrown_by([&] {
        concat_dataset({numbers(1), tensor_dataset(std::move(other))});
      }),
      AllOf(StartsWith("Refused: data set 1 "), HasSubstr("has field 'y'"), HasSubstr("not 'x'")));
  EXPECT_THAT(thrown_by([&] {
                concat_dataset({numbers(1), synthetic_segmentation({})});
              }),
              HasSubstr("has 2 fields, not 1"));
  EXPECT_THAT(thrown_by([] { concat_dataset({}); }), StartsWith("Refused: nothing"));
  EXPECT_THAT(thrown_by([] { concat_dataset({nullptr}); }), StartsWith("Refused: "));
}

TEST(Subset, HasGivenSamplesInGivenOrder) {
  EXPECT_THAT(firsts(*subset(numbers(5), {4, 0, 4})), ElementsAre(4, 0, 4));
  EXPECT_EQ(subset(numbers(5), {3})->name(0), "sample 3");
  EXPECT_EQ(subset(numbers(5), {})->size(), 0u);
  EXPECT_THAT(thrown_by([] {
                subset(numbers(5), {1, 5});
              }),
              AllOf(StartsWith("Refused: "), HasSubstr("sample 5"), HasSubstr("has 5")));
}

/// Returns the requested index and the sample number of the random key.
class KeyedSet final : public Dataset {
 public:
  std::size_t size() const override { return 5; }
  void read(std::size_t index, Sample& out) const override { read_keyed(index, {}, out); }
  void read_keyed(std::size_t index, const RandomKey& key, Sample& out) const override {
    out.fields.resize(1);
    auto* const values = out.fields[0].array.reset(DType::int32, {2}).as<std::int32_t>();
    values[0] = static_cast<std::int32_t>(index);
    values[1] = static_cast<std::int32_t>(key.sample);
  }
};

TEST(Subset, ForwardsTheRandomKey) {
  const auto set = std::make_shared<const KeyedSet>();
  Sample sample;
  subset(set, {4, 2})->read_keyed(1, {.sample = 9}, sample);
  EXPECT_THAT(copy_values<std::int32_t>(sample.fields[0]), ElementsAre(2, 9));
  concat_dataset({set, set})->read_keyed(6, {.sample = 8}, sample);
  EXPECT_THAT(copy_values<std::int32_t>(sample.fields[0]), ElementsAre(1, 8));
}

TEST(Subset, KeepsLabelsAndDecodesImages) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directories(folder.path() / name);
    write_file_atomically(folder.path() / name / "1.png", image_record("rgb.png").file);
  }
  const auto part = subset(image_folder(folder.path()), {1});
  EXPECT_EQ(part->label(0), 1);
  EXPECT_THAT(part->class_names(), ElementsAre("a", "b"));
  Sample sample;
  HostArray spare;
  part->read(0, sample);
  part->decode(part->fields()[0], {}, sample.fields[0], spare);
  EXPECT_EQ(copy_levels(sample.fields[0].array), image_record("rgb.png").rgb);
}

}  // namespace
}  // namespace slipstream
