#include "slipstream/datasets/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/image_records.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

/// A data set with only the functions that a user must write.
class MinimalSet : public Dataset {
 public:
  explicit MinimalSet(std::size_t samples) : samples_(samples) {}
  std::size_t size() const override { return samples_; }
  void read(std::size_t index, Sample& out) const override {
    out.fields.resize(2);
    out.fields[0].array.reset(DType::float32, {2, 5});
    out.fields[1].array.reset(DType::int64, {}).as<std::int64_t>()[0] =
        static_cast<std::int64_t>(index);
  }

 private:
  std::size_t samples_;
};

TEST(Dataset, FieldsAreDerivedFromTheFirstSample) {
  const std::vector<FieldSpec> fields = MinimalSet(3).fields();
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].name, "field0");
  EXPECT_EQ(fields[0].kind, FieldKind::other);
  EXPECT_EQ(fields[0].dtype, DType::float32);
  EXPECT_EQ(fields[0].shape, Shape({2, 5}));
  EXPECT_EQ(fields[1].name, "field1");
  EXPECT_EQ(fields[1].dtype, DType::int64);
  EXPECT_EQ(fields[1].shape, Shape());
  EXPECT_EQ(MinimalSet(3).name(2), "sample 2");
}

TEST(Dataset, FieldsOfEmptyDatasetThrow) {
  EXPECT_THAT(thrown_by([] { MinimalSet(0).fields(); }), HasSubstr("Error: the data set is empty"));
}

struct Decoding {
  Field field;
  HostArray spare;
  std::string error;
};

Decoding decode(FieldKind kind, const std::string& record, bool encoded) {
  Decoding result;
  const std::vector<std::byte> file = image_record(record).file;
  result.field.array.assign({file.data(), DType::uint8, {static_cast<std::int64_t>(file.size())}});
  result.field.encoded = encoded;
  const FieldSpec spec{"picture", kind, DType::uint8, {-1, -1, 3}, 0};
  result.error = thrown_by([&] { MinimalSet(1).decode(spec, {}, result.field, result.spare); });
  return result;
}

TEST(Dataset, DecodesImagesAndMasksByContent) {
  const Decoding jpeg = decode(FieldKind::image, "rgb_420.jpg", true);
  EXPECT_FALSE(jpeg.field.encoded);
  EXPECT_EQ(copy_levels(jpeg.field.array), image_record("rgb_420.jpg").rgb);
  const Decoding png = decode(FieldKind::image, "rgb.png", true);
  EXPECT_EQ(copy_levels(png.field.array), image_record("rgb.png").rgb);
  const Decoding mask = decode(FieldKind::mask, "palette_4.png", true);
  EXPECT_EQ(copy_levels(mask.field.array), image_record("palette_4.png").mask);
}

TEST(Dataset, DecodeKeepsFieldsThatAreNotEncoded) {
  const Decoding kept = decode(FieldKind::image, "rgb.png", false);
  EXPECT_EQ(kept.error, "nothing");
  EXPECT_EQ(kept.field.array.view().shape.rank, 1u);
}

TEST(Dataset, DecodingALabelFieldThrows) {
  EXPECT_THAT(decode(FieldKind::label, "rgb.png", true).error,
              HasSubstr("Error: field 'picture' holds a file's bytes"));
}

}  // namespace
}  // namespace slipstream
