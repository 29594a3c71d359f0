#include "core/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>

#include "slipstream/core/error.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "support/write_limit.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

template <typename T>
std::span<const std::byte> bytes(const T& values) {
  return std::as_bytes(std::span(values));
}

std::string file_refusal(std::string_view json, std::uint64_t value_bytes) {
  return thrown_by([&] { parse_safetensors_header(json, value_bytes); });
}

class Safetensors : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "weights.safetensors"; }

  std::string text() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write_text(std::string_view text) const { std::ofstream(path(), std::ios::binary) << text; }
  std::string refusal_of_file() const {
    return thrown_by([&] { SafetensorsFile file(path()); });
  }

  TemporaryFolder folder_;
};

TEST_F(Safetensors, TensorsAndMetadataRoundTrip) {
  const std::array<float, 6> weight = {1, -2, 3.5, 0, 1e-30F, 6};
  const std::array<std::int64_t, 1> step = {7};
  const std::array<std::uint8_t, 3> mask = {1, 0, 1};
  write_safetensors(path(),
                    {{"mask", StoredType::boolean, {3}, bytes(mask)},
                     {"fc.weight", StoredType::float32, {2, 3}, bytes(weight)},
                     {"none", StoredType::float32, {0, 4}, {}},
                     {"step", StoredType::int64, {}, bytes(step)}},
                    {{"format", "pt"}});
  const SafetensorsFile file(path());
  EXPECT_THAT(file.header().metadata, ElementsAre(Pair("format", "pt")));
  const StoredTensor* const found = file.header().find("fc.weight");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->type, StoredType::float32);
  EXPECT_THAT(found->shape, ElementsAre(2, 3));
  std::array<float, 6> read{};
  file.read(*found, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, weight);
  std::array<std::int64_t, 1> read_step{};
  file.read(*file.header().find("step"), std::as_writable_bytes(std::span(read_step)));
  EXPECT_EQ(read_step, step);
  EXPECT_EQ(file.header().find("none")->bytes, 0U);
  EXPECT_EQ(file.header().find("bias"), nullptr);
}

TEST_F(Safetensors, FileIsAlignedAndIndependentOfTensorOrder) {
  const std::array<std::uint8_t, 3> small = {1, 2, 3};
  const std::array<double, 1> large = {4};
  const TensorToStore a = {"a", StoredType::uint8, {3}, bytes(small)};
  const TensorToStore b = {"b", StoredType::float64, {1}, bytes(large)};
  write_safetensors(path(), {a, b});
  const std::string first = text();
  write_safetensors(path(), {b, a});
  EXPECT_EQ(text(), first);
  EXPECT_EQ((first.size() - small.size()) % 8, 0U);
  EXPECT_EQ(SafetensorsFile(path()).header().tensors.front().name, "b");
}

TEST_F(Safetensors, EmptyFileRoundTrips) {
  write_safetensors(path(), {});
  EXPECT_TRUE(SafetensorsFile(path()).header().tensors.empty());
}

TEST_F(Safetensors, MissingTruncatedOrInvalidFileIsAnError) {
  EXPECT_THAT(refusal_of_file(), AllOf(StartsWith("Error: cannot read " + path().string()),
                                       HasSubstr("No such file")));
  write_text("1234567");
  EXPECT_THAT(refusal_of_file(), HasSubstr("too short"));
  write_text("this is a text that is longer");
  EXPECT_THAT(refusal_of_file(), HasSubstr("it is not a .safetensors file, or was truncated"));
  const std::array<float, 2> weight = {1, 2};
  write_safetensors(path(), {{"w", StoredType::float32, {2}, bytes(weight)}});
  const std::string whole = text();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_text(whole.substr(0, size));
    EXPECT_THAT(refusal_of_file(), StartsWith("Error: cannot read")) << size;
  }
  write_text(whole + "!");
  EXPECT_THAT(refusal_of_file(),
              HasSubstr("its tensors need 8 bytes, but the file has 9 for them"));
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_THAT(refusal_of_file(), HasSubstr("not a regular file"));
}

TEST_F(Safetensors, FileTruncatedAfterOpeningIsAnErrorOnRead) {
  const std::array<float, 2> weight = {1, 2};
  write_safetensors(path(), {{"w", StoredType::float32, {2}, bytes(weight)}});
  const SafetensorsFile file(path());
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 1);
  std::array<float, 2> to{};
  EXPECT_EQ(thrown_by([&] {
              file.read(file.header().tensors.front(), std::as_writable_bytes(std::span(to)));
            }),
            "Error: cannot read tensor 'w' of " + path().string() + ": it ends too early");
}

TEST_F(Safetensors, FailedWriteKeepsExistingFile) {
  const std::array<float, 1> weight = {1};
  const TensorToStore tensor = {"w", StoredType::float32, {1}, bytes(weight)};
  EXPECT_THAT(thrown_by([&] { write_safetensors(folder_.path() / "no" / "w", {tensor}); }),
              AllOf(StartsWith("Error: cannot write"), HasSubstr("No such file")));
  EXPECT_THAT(thrown_by([&] { write_safetensors(folder_.path(), {tensor}); }),
              StartsWith("Error: cannot write"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_THAT(thrown_by([&] { write_safetensors("/dev/null", {tensor}); }),
              HasSubstr("cannot write /dev/null: it is not a regular file"));
  write_safetensors(path(), {tensor});
  const std::string before = text();
  {
    const WriteLimit full(before.size() / 2);
    EXPECT_THAT(thrown_by([&] {
                  write_safetensors(path(), {tensor}, {{"later", "yes"}});
                }),
                HasSubstr("File too large"));
  }
  EXPECT_EQ(text(), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST(SafetensorsHeader, InvalidTensorEntriesAreReported) {
  const auto one = [](const std::string& tensor) {
    return file_refusal("{\"w\": " + tensor + "}", 8);
  };
  EXPECT_EQ(one("1"), "Error: tensor 'w' is 1, not an object");
  EXPECT_EQ(one("{}"), "Error: tensor 'w' has no \"dtype\"");
  EXPECT_EQ(one(R"({"dtype": "F33"})"),
            "Error: tensor 'w' has the dtype \"F33\", which is unknown");
  EXPECT_EQ(one(R"({"dtype": "F32", "shape": 2})"), "Error: tensor 'w' has the shape 2");
  EXPECT_EQ(one(R"({"dtype": "F32", "shape": [-2]})"), "Error: tensor 'w' has in \"shape\" -2");
  EXPECT_EQ(one(R"({"dtype": "F32", "shape": [2], "data_offsets": [0]})"),
            "Error: tensor 'w' has the data_offsets a list of 1, not two numbers");
  EXPECT_EQ(one(R"({"dtype": "F32", "shape": [2], "data_offsets": [8, 0]})"),
            "Error: tensor 'w' has an end before its begin");
  EXPECT_EQ(one(R"({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]})"),
            "Error: tensor 'w' has 8 bytes, which do not fit its shape");
  EXPECT_EQ(
      one(R"({"dtype": "F32", "shape": [1], "data_offsets": [4, 8]})"),
      "Error: tensor 'w' begins at byte 4 of the values, not at the end of the previous tensor, "
      "at 0");
  EXPECT_EQ(one(R"({"dtype": "F32", "shape": [4], "data_offsets": [0, 16]})"),
            "Error: its tensors need 16 bytes, but the file has 8 for them: it was truncated");
  EXPECT_THAT(one(R"({"dtype": "F32", "shape": [9223372036854775807, 9223372036854775807],
                      "data_offsets": [0, 8]})"),
              HasSubstr("do not fit its shape"));
}

TEST(SafetensorsHeader, InvalidHeaderDocumentsAreRefused) {
  EXPECT_THAT(file_refusal("[]", 0), HasSubstr("the header is a list of 0, not an object"));
  EXPECT_THAT(file_refusal("{", 0), HasSubstr("the header must be JSON"));
  EXPECT_THAT(file_refusal(R"({"a": {}, "a": {}})", 0), HasSubstr("twice"));
  EXPECT_THAT(file_refusal(R"({"__metadata__": 1})", 0), HasSubstr("\"__metadata__\" is 1"));
  EXPECT_THAT(file_refusal(R"({"__metadata__": {"a": 1}})", 0),
              HasSubstr("the value of 'a' in \"__metadata__\" is 1, not a string"));
  EXPECT_THAT(file_refusal("{\"a\":" + std::string(1000, '['), 0), HasSubstr("nested too deeply"));
  EXPECT_EQ(file_refusal(R"({"__metadata__": {"a": "[[[[[[[[[[\"[[[["}})", 0), "nothing");
}

}  // namespace
}  // namespace slipstream
