#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "features/feature_store.h"
#include "slipstream/core/philox.h"
#include "support/temporary_folder.h"

namespace slipstream {

/// Entries, indices and records of the samples first ... first+count-1. Equal samples have equal
/// records.
struct FeatureBatch {
  std::vector<FeatureEntry> entries;
  std::vector<std::int64_t> indices;
  std::vector<std::byte> records;
};

/// Has a folder of features with records of 96 bytes.
class FeatureStoreTest : public testing::Test {
 protected:
  static constexpr const char* kFields =
      R"([{"name": "x", "dtype": "float32", "shape": [4, 5]}, {"name": "y", "dtype": "int64", "shape": [2]}])";
  static constexpr std::size_t kRecordBytes = 96;
  static constexpr std::size_t kSlotBytes = 40;

  std::filesystem::path folder() const { return temporary_.path() / "made" / "features"; }
  std::unique_ptr<FeatureStore> open(const std::string& key = R"({"weights": 1})",
                                     std::optional<std::uint64_t> budget = {}) const {
    return std::make_unique<FeatureStore>(folder(), key, kFields, budget);
  }
  static std::filesystem::path key_folder(const FeatureStore& store,
                                          const std::filesystem::path& in) {
    return in / store.manifest().folder_name();
  }
  /// Returns the folder of the key that open() opens.
  std::filesystem::path dir() const {
    return folder() / make_feature_manifest(R"({"weights": 1})", kFields).folder_name();
  }

  static FeatureBatch batch(std::uint64_t first, std::size_t count, std::uint64_t version = 0) {
    FeatureBatch made;
    for (std::uint64_t i = first; i < first + count; ++i) {
      made.entries.push_back({i * 0x9e3779b97f4a7c15ULL, version});
      made.indices.push_back(static_cast<std::int64_t>(i));
      RandomStream random({.seed = i, .sample = version});
      for (std::size_t k = 0; k < kRecordBytes; ++k)
        made.records.push_back(static_cast<std::byte>(random.below(256)));
    }
    return made;
  }
  static std::size_t write(FeatureStore& store, const FeatureBatch& made) {
    return store.write(made.entries, made.indices, made.records);
  }
  /// Returns how many records of the batch the store has, or ADD_FAILURE for wrong ones.
  static std::size_t good_records(FeatureStore& store, const FeatureBatch& made,
                                  unsigned threads = 1) {
    const std::vector<std::int64_t> numbers = store.find(made.entries);
    std::vector<std::int64_t> stored;
    std::vector<std::byte> expected;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] < 0) continue;
      stored.push_back(numbers[i]);
      const auto record = std::span(made.records).subspan(i * kRecordBytes, kRecordBytes);
      expected.insert(expected.end(), record.begin(), record.end());
    }
    std::vector<std::byte> read(expected.size());
    const std::vector<bool> good = store.read(stored, read, threads);
    std::size_t count = 0;
    for (std::size_t i = 0; i < good.size(); ++i) {
      if (!good[i]) continue;
      EXPECT_EQ(std::memcmp(&read[i * kRecordBytes], &expected[i * kRecordBytes], kRecordBytes), 0);
      ++count;
    }
    return count;
  }
  /// Returns the total size of the files in a folder and its subfolders.
  static std::uint64_t bytes_on_disk(const std::filesystem::path& folder) {
    std::uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) bytes += entry.file_size();
    return bytes;
  }

  const TemporaryFolder temporary_;
};

}  // namespace slipstream
