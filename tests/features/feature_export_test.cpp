#include "features/feature_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/files.h"
#include "datasets/npy_header.h"
#include "features/feature_store_fixture.h"
#include "support/thrown.h"
#include "support/write_limit.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

template <typename T>
std::vector<T> parse_values(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// A .npy file's header and values.
struct NpyContent {
  NpyHeader header;
  std::string values;
};

NpyContent read_npy(const fs::path& path) {
  const std::string text = read_text(path);
  NpyContent content{parse_npy_header(std::as_bytes(std::span(text))), ""};
  content.values = text.substr(content.header.data_at);
  return content;
}

class FeatureExportTest : public FeatureStoreTest {
 protected:
  fs::path out() const { return temporary_.path() / "out"; }
  FeatureExport options(FeatureFormat format) const { return {.format = format, .out = out()}; }

  /// Stores three records of a uint16, which count as `type`, and a byte. The samples have the
  /// indices 7, 3 and 5.
  std::unique_ptr<FeatureStore> small_store(const std::string& type) const {
    auto store = std::make_unique<FeatureStore>(
        folder(), "\"" + type + "\"",
        R"([{"name": "x", "dtype": ")" + type +
            R"(", "shape": [1, 1]}, {"name": "mask/y", "dtype": "uint8", "shape": []}])");
    const std::vector<FeatureEntry> entries = {{70, 0}, {30, 2}, {50, 1}};
    const std::vector<std::int64_t> indices = {7, 3, 5};
    // 1, 2 and 3 as bfloat16
    const std::vector<unsigned char> bytes = {0x80, 0x3f, 70, 0x00, 0x40, 30, 0x40, 0x40, 50};
    store->write(entries, indices, std::as_bytes(std::span(bytes)));
    return store;
  }
};

TEST_F(FeatureExportTest, NpyFilesHaveRowsInOrderOfSamples) {
  const auto store = small_store("int16");
  const ExportedFeatures done = export_features(*store, options(FeatureFormat::npy));
  EXPECT_EQ(done.rows, 3U);
  EXPECT_TRUE(done.is_complete);
  const NpyContent x = read_npy(out() / "x.npy");
  EXPECT_EQ(x.header.type, "<i2");
  EXPECT_THAT(x.header.shape, ElementsAre(3, 1, 1));
  EXPECT_THAT(parse_values<std::int16_t>(x.values), ElementsAre(0x4000, 0x4040, 0x3f80));
  const NpyContent y = read_npy(out() / "mask_y.npy");
  EXPECT_EQ(y.header.type, "|u1");
  EXPECT_THAT(y.header.shape, ElementsAre(3));
  EXPECT_THAT(parse_values<std::uint8_t>(y.values), ElementsAre(30, 50, 70));
  EXPECT_THAT(parse_values<std::int64_t>(read_npy(out() / "sample_index.npy").values),
              ElementsAre(3, 5, 7));
  EXPECT_THAT(parse_values<std::int64_t>(read_npy(out() / "sample_version.npy").values),
              ElementsAre(2, 1, 0));
  EXPECT_EQ(std::distance(fs::directory_iterator(out()), fs::directory_iterator()), 4);
}

TEST_F(FeatureExportTest, BFloat16IsWidenedForNumPy) {
  export_features(*small_store("bfloat16"), options(FeatureFormat::npy));
  const NpyContent x = read_npy(out() / "x.npy");
  EXPECT_EQ(x.header.type, "<f4");
  EXPECT_THAT(parse_values<float>(x.values), ElementsAre(2.0F, 3.0F, 1.0F));
}

TEST_F(FeatureExportTest, SafetensorsFileHasAllArrays) {
  export_features(*small_store("bfloat16"), options(FeatureFormat::safetensors));
  const SafetensorsFile file(out());
  const auto bytes = [&](const char* name) {
    const StoredTensor* tensor = file.header().find(name);
    std::string text(tensor == nullptr ? 0 : tensor->bytes, '\0');
    if (tensor != nullptr) file.read(*tensor, std::as_writable_bytes(std::span(text)));
    return text;
  };
  EXPECT_EQ(file.header().tensors.size(), 4U);
  EXPECT_EQ(file.header().find("x")->type, StoredType::bfloat16);
  EXPECT_THAT(file.header().find("x")->shape, ElementsAre(3, 1, 1));
  EXPECT_THAT(parse_values<std::uint16_t>(bytes("x")), ElementsAre(0x4000, 0x4040, 0x3f80));
  EXPECT_THAT(parse_values<std::uint8_t>(bytes("mask/y")), ElementsAre(30, 50, 70));
  EXPECT_THAT(parse_values<std::int64_t>(bytes("sample_index")), ElementsAre(3, 5, 7));
  EXPECT_THAT(parse_values<std::int64_t>(bytes("sample_version")), ElementsAre(2, 1, 0));
}

TEST_F(FeatureExportTest, EveryRowIsWrittenInParts) {
  const std::string fields = R"([{"name": "x", "dtype": "uint8", "shape": [5000000]}])";
  FeatureStore store(folder(), "1", fields);
  std::vector<std::byte> records(10 * store.record_bytes());
  for (std::size_t i = 0; i < 10; ++i)
    std::fill_n(records.begin() + static_cast<std::ptrdiff_t>(i * store.record_bytes()),
                store.record_bytes(), static_cast<std::byte>(i));
  std::vector<FeatureEntry> entries;
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < 10; ++i) {
    entries.push_back({static_cast<std::uint64_t>(i), 0});
    indices.push_back(9 - i);
  }
  store.write(entries, indices, records);
  std::vector<std::size_t> progress;
  FeatureExport wanted = options(FeatureFormat::safetensors);
  wanted.threads = 2;
  wanted.progress = [&](std::size_t rows, std::size_t all) {
    progress.push_back(rows);
    EXPECT_EQ(all, 10U);
  };
  export_features(store, wanted);
  EXPECT_THAT(progress, ElementsAre(6, 10));
  const SafetensorsFile file(out());
  std::vector<std::byte> values(file.header().find("x")->bytes);
  file.read(*file.header().find("x"), values);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(values[i * store.record_bytes()], static_cast<std::byte>(9 - i));
    EXPECT_EQ(values[(i + 1) * store.record_bytes() - 1], static_cast<std::byte>(9 - i));
  }
}

TEST_F(FeatureExportTest, DamagedRecordIsCountedAndNotWritten) {
  const auto store = small_store("int16");
  const fs::path path = key_folder(*store, folder()) / "0.records";
  std::string text = read_text(path);
  text[3] = '\x7f';
  std::ofstream(path, std::ios::binary) << text;
  const ExportedFeatures done = export_features(*store, options(FeatureFormat::npy));
  EXPECT_EQ(done.rows, 2U);
  EXPECT_EQ(done.damaged, 1U);
  EXPECT_THAT(parse_values<std::int64_t>(read_npy(out() / "sample_index.npy").values),
              ElementsAre(5, 7));
}

TEST_F(FeatureExportTest, StoppedExportLeavesNoFiles) {
  const auto store = small_store("int16");
  FeatureExport wanted = options(FeatureFormat::npy);
  wanted.stop = [] { return true; };
  EXPECT_FALSE(export_features(*store, wanted).is_complete);
  EXPECT_TRUE(fs::is_empty(out()));
}

TEST_F(FeatureExportTest, FullDiskThrowsAndKeepsExistingFiles) {
  const auto store = small_store("int16");
  export_features(*store, options(FeatureFormat::safetensors));
  const std::string before = read_text(out());
  {
    const WriteLimit limit(20);
    EXPECT_THAT(thrown_by([&] { export_features(*store, options(FeatureFormat::safetensors)); }),
                AllOf(StartsWith("Error: cannot write '"), HasSubstr("File too large")));
  }
  EXPECT_EQ(read_text(out()), before);
  EXPECT_FALSE(fs::exists(out().string() + ".part"));
}

TEST_F(FeatureExportTest, TypesAndNamesThatNumPyLacksAreRefused) {
  const std::string fields = R"([{"name": "x", "dtype": "float8_e5m2", "shape": [2]}])";
  FeatureStore fp8(folder(), "1", fields);
  EXPECT_THAT(thrown_by([&] { export_features(fp8, options(FeatureFormat::npy)); }),
              AllOf(StartsWith("Refused: "), HasSubstr("safetensors")));
  const std::string alike =
      R"([{"name": "a/b", "dtype": "int8", "shape": [2]}, {"name": "a b", "dtype": "int8", "shape": [2]}])";
  FeatureStore same(folder(), "2", alike);
  EXPECT_THAT(thrown_by([&] { export_features(same, options(FeatureFormat::npy)); }),
              AllOf(StartsWith("Refused: "), HasSubstr("a_b.npy")));
  const std::string taken = R"([{"name": "sample_index", "dtype": "int8", "shape": [2]}])";
  FeatureStore index(folder(), "3", taken);
  EXPECT_THAT(thrown_by([&] { export_features(index, options(FeatureFormat::safetensors)); }),
              AllOf(StartsWith("Refused: "), HasSubstr("sample_index")));
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(FeatureExportTest, EmptyStoreGivesArraysWithoutRows) {
  export_features(*open(), options(FeatureFormat::npy));
  EXPECT_THAT(read_npy(out() / "x.npy").header.shape, ElementsAre(0, 4, 5));
}

}  // namespace
}  // namespace slipstream
