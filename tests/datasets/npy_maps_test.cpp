#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/npy_header.h"
#include "slipstream/datasets/datasets.h"
#include "support/array_values.h"
#include "support/folder_fixture.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string npy(const std::string& dictionary, const std::string& data, int version = 1) {
  std::string text("\x93NUMPY");
  text += static_cast<char>(version);
  text += '\0';
  const std::size_t digits = version == 1 ? 2 : 4;
  for (std::size_t i = 0; i < digits; ++i) {
    text += static_cast<char>(dictionary.size() >> 8 * i & 0xff);
  }
  return text + dictionary + data;
}

std::string dictionary(const std::string& type, const std::string& shape,
                       const std::string& fortran = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape +
         ", }  \n";
}

std::string to_byte_string(const HostArray& array) {
  const ConstArray view = array.view();
  return {view.as<char>(), view.as<char>() + view.bytes()};
}

class NpyMapsTest : public FolderTest {
 protected:
  std::string error(const std::string& bytes, FieldKind kind = FieldKind::other) const {
    return thrown_by([&] { npy_maps({{"x", kind, write("x.npy", bytes)}}); });
  }
};

TEST_F(NpyMapsTest, SamplesWithoutValuesAreRefused) {
  for (const char* shape : {"(1000000000000, 0, 0, 3)", "(5, 4, 0, 3)", "(7, 0)"}) {
    EXPECT_THAT(error(npy(dictionary("|u1", shape), "")), HasSubstr("has samples without values"))
        << shape;
  }
}

TEST_F(NpyMapsTest, SingleClassIsRemarked) {
  const auto remarks = [&](const std::vector<std::int32_t>& labels) {
    const std::string values(reinterpret_cast<const char*>(labels.data()), 4 * labels.size());
    const std::string shape = "(" + std::to_string(labels.size()) + ",)";
    write("label.npy", npy(dictionary("<i4", shape), values));
    return open_dataset(folder_.path())->remarks();
  };
  EXPECT_THAT(remarks({3, 3, 3}), ElementsAre(HasSubstr("all samples are of one class, '3'")));
  EXPECT_THAT(open_dataset(folder_.path(), {"cat", "dog", "elk", "fox"})->remarks(),
              ElementsAre(HasSubstr("all samples are of one class, 'fox'")));
  EXPECT_THAT(remarks({3, 3, 2}), ElementsAre());
  EXPECT_THAT(remarks({3}), ElementsAre());
  std::vector<std::int32_t> many(10'000, 1);
  EXPECT_THAT(remarks(many), ElementsAre(HasSubstr("'1'")));
  many.back() = 0;
  EXPECT_THAT(remarks(many), ElementsAre());
}

TEST_F(NpyMapsTest, ReadReturnsTheSamplesSliceOfEveryFile) {
  const auto images =
      write("images.npy", npy(dictionary("|u1", "(2, 1, 2, 3)"),
                              to_byte_string(counting<std::uint8_t>(DType::uint8, {12}))));
  const auto labels = write(
      "labels.npy",
      npy(dictionary("<i8", "(2,)"), to_byte_string(counting<std::int64_t>(DType::int64, {2})), 2));
  const auto masks =
      write("masks.npy", npy(dictionary("<i4", "(2, 1, 2)"),
                             to_byte_string(counting<std::int32_t>(DType::int32, {4})), 3));
  const auto floats =
      write("floats.npy",
            npy(dictionary("<f4", "(2, 2)"), to_byte_string(counting<float>(DType::float32, {4}))));
  const auto dataset = npy_maps({{"image", FieldKind::image, images},
                                 {"label", FieldKind::label, labels, 5},
                                 {"mask", FieldKind::mask, masks},
                                 {"other", FieldKind::other, floats}});
  ASSERT_EQ(dataset->size(), 2u);
  EXPECT_EQ(dataset->fields()[0].shape, Shape({1, 2, 3}));
  EXPECT_EQ(dataset->fields()[1].classes, 5);
  EXPECT_EQ(dataset->name(1), images.string() + "[1]");
  Sample sample;
  dataset->read(1, sample);
  EXPECT_THAT(copy_values<std::uint8_t>(sample.fields[0]), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(copy_values<std::int64_t>(sample.fields[1]), ElementsAre(1));
  EXPECT_THAT(copy_values<std::int32_t>(sample.fields[2]), ElementsAre(2, 3));
  EXPECT_THAT(copy_values<float>(sample.fields[3]), ElementsAre(2, 3));
}

TEST_F(NpyMapsTest, UnsupportedTypesAreRefusedWithAdvice) {
  const auto error_for_type = [&](const std::string& type) {
    return error(npy(dictionary(type, "(1,)"), "12345678"));
  };
  EXPECT_THAT(error_for_type(">i4"),
              AllOf(StartsWith("Refused: "), HasSubstr("x.npy': it is big-endian"),
                    HasSubstr("array.astype('<i4')")));
  const std::pair<const char*, const char*> others[] = {
      {"<f8", "'float32'"}, {">f8", "'float32'"}, {"<f2", "'float32'"},   {"<u2", "'int64'"},
      {"|i1", "'int64'"},   {"|b1", "'uint8'"},   {"|O", "save numbers"}, {"<U3", "save numbers"}};
  for (const auto& [type, advice] : others) {
    EXPECT_THAT(error_for_type(type),
                AllOf(StartsWith("Refused: "), HasSubstr(type), HasSubstr(advice)));
  }
  EXPECT_THAT(
      error(npy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", "1234")),
      HasSubstr("structured"));
  EXPECT_THAT(error(npy(dictionary("<f4", "(1,)"), "1234"), FieldKind::label),
              HasSubstr("x.npy' is float32 of 1: labels are"));
}

TEST_F(NpyMapsTest, FortranOrderIsRefused) {
  EXPECT_THAT(error(npy(dictionary("|u1", "(2, 2)", "True"), "1234")),
              AllOf(StartsWith("Refused: "), HasSubstr("x.npy"), HasSubstr("ascontiguousarray")));
  EXPECT_EQ(error(npy(dictionary("|u1", "(4,)", "True"), "1234")), "nothing");
}

TEST(NpyHeader, MatchesNumpyAndParsesBack) {
  const std::string one = npy_header({DType::uint8, {2}});
  EXPECT_EQ(one, std::string("\x93NUMPY\x01\x00v\x00", 10) +
                     "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }" +
                     std::string(60, ' ') + "\n");
  for (const DType dtype : {DType::uint8, DType::int32, DType::int64, DType::float32})
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{12345678, 4096, 4096, 3}, Shape{3, 4}}) {
      const std::string header = npy_header({dtype, shape});
      EXPECT_EQ(header.size() % 64, 0U);
      const NpyHeader parsed = parse_npy_header(std::as_bytes(std::span(header)));
      EXPECT_EQ(parsed.data_at, header.size());
      EXPECT_EQ(npy_form(parsed).dtype, dtype);
      EXPECT_EQ(npy_form(parsed).shape, shape);
    }
}

TEST_F(NpyMapsTest, FileOfWrongLengthIsRefused) {
  EXPECT_THAT(error(npy(dictionary("|u1", "(5,)"), "1234")),
              AllOf(StartsWith("Refused: "), HasSubstr("x.npy"), HasSubstr("cut short")));
  EXPECT_THAT(error(npy(dictionary("|u1", "(3,)"), "1234")), HasSubstr("one array per file"));
}

TEST_F(NpyMapsTest, FilesWithDifferentSampleCountsAreRefused) {
  const auto two = write("two.npy", npy(dictionary("|u1", "(2,)"), "12"));
  const auto three = write("three.npy", npy(dictionary("|u1", "(3,)"), "123"));
  EXPECT_THAT(thrown_by([&] {
                npy_maps({{"a", FieldKind::label, two}, {"b", FieldKind::label, three}});
              }),
              AllOf(StartsWith("Refused: "), HasSubstr("three.npy' has 3 samples, but '"),
                    HasSubstr("two.npy' has 2")));
}

TEST_F(NpyMapsTest, MissingOrNonNpyFileIsRefused) {
  EXPECT_THAT(error("PK\3\4"), AllOf(StartsWith("Refused: "), HasSubstr("not a .npy file")));
  EXPECT_THAT(error(""), HasSubstr("not a .npy file"));
  EXPECT_THAT(thrown_by([&] {
                npy_maps({{"x", FieldKind::other, folder_.path() / "none.npy"}});
              }),
              AllOf(StartsWith("Refused: "), HasSubstr("none.npy"), HasSubstr("No such file")));
  EXPECT_THAT(thrown_by([] { npy_maps({}); }), StartsWith("Refused: no fields"));
}

TEST_F(NpyMapsTest, TruncatedOrInvalidHeaderIsRefused) {
  const std::string good = npy(dictionary("|u1", "(2, 2)"), "");
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_THAT(error(good.substr(0, length)), StartsWith("Refused: ")) << length;
  }
  for (const char* bad :
       {"{}", "{'descr': '|u1'}", "{'descr': '|u1', 'fortran_order': 0, 'shape': ()}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1}", "{'x': 1}",
        "{'descr': [, 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)} tail"}) {
    EXPECT_THAT(error(npy(bad, "1")), HasSubstr("broken .npy header")) << bad;
  }
  EXPECT_THAT(error(npy(dictionary("|u1", "(1, 1, 1, 1, 1)"), "1")), HasSubstr("5 dimensions"));
  EXPECT_THAT(error(npy(dictionary("<i8", "(0, 9223372036854775807, 9223372036854775807)"), "")),
              HasSubstr("too many elements"));
}

TEST_F(NpyMapsTest, ReadingATruncatedOrReplacedFileThrows) {
  const auto path = write("x.npy", npy(dictionary("|u1", "(2,)"), "12"));
  const auto read_error = [](const Dataset& dataset) {
    Sample sample;
    return thrown_by([&] { dataset.read(1, sample); });
  };
  const auto shortened = npy_maps({{"x", FieldKind::label, path}});
  EXPECT_EQ(read_error(*shortened), "nothing");
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_THAT(read_error(*shortened),
              AllOf(StartsWith("Error: "), HasSubstr("x.npy' became shorter")));
  write("x.npy", npy(dictionary("|u1", "(2,)"), "12"));
  const auto replaced = npy_maps({{"x", FieldKind::label, path}});
  write("x.npy", npy(dictionary("|u1", "(2,)"), "34"));
  EXPECT_THAT(read_error(*replaced), HasSubstr("was replaced or removed"));
}

}  // namespace
}  // namespace slipstream
