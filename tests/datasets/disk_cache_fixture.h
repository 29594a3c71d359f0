#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "loader/loader_fixture.h"
#include "slipstream/datasets/disk_cache.h"
#include "support/temporary_folder.h"

namespace slipstream {

inline constexpr std::uint64_t kAmpleDisk = 1 << 20;
/// Size of a TestSet's record: two heads of 40 bytes, an image of 8 and a label of 8.
inline constexpr std::uint64_t kRecordBytes = 96;

inline Sample empty_sample(std::size_t fields = 2) {
  Sample sample;
  sample.fields.resize(fields);
  return sample;
}

/// Returns true if sample `index` of `dataset` equals that of `expected`.
inline bool gives(const Dataset& dataset, std::size_t index, const Dataset& expected) {
  Sample a = empty_sample();
  Sample b = empty_sample();
  dataset.read(index, a);
  expected.read(index, b);
  if (a.fields.size() != b.fields.size()) return false;
  for (std::size_t i = 0; i < a.fields.size(); ++i) {
    const ConstArray x = a.fields[i].array.view();
    const ConstArray y = b.fields[i].array.view();
    if (a.fields[i].encoded != b.fields[i].encoded || x.dtype != y.dtype || x.shape != y.shape) {
      return false;
    }
    if (x.bytes() > 0 && std::memcmp(x.data, y.data, x.bytes()) != 0) return false;
  }
  return true;
}

/// Returns the number of samples of `dataset` that differ from those of `expected`.
inline std::size_t wrong_samples(const Dataset& dataset, const Dataset& expected) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) wrong += gives(dataset, i, expected) ? 0 : 1;
  return wrong;
}

/// Has a cache, in a temporary folder, of a TestSet of 20 samples.
class DiskCacheTest : public testing::Test {
 protected:
  static constexpr std::size_t kSamples = 20;
  static constexpr std::uint64_t kIndexBytes = 32 * kSamples;

  std::filesystem::path dir() const { return folder_.path() / "made" / "cache"; }
  DiskCacheOptions options(std::uint64_t max_bytes = kAmpleDisk) const {
    return {.dir = dir(), .max_bytes = max_bytes};
  }
  std::shared_ptr<const Dataset> open(std::uint64_t max_bytes = kAmpleDisk) const {
    return disk_cached(source_, options(max_bytes));
  }
  static DiskCacheState cache_state(const std::shared_ptr<const Dataset>& dataset) {
    return disk_cache_state(*dataset).value();
  }
  /// Returns the total size of the files in the folder.
  std::uint64_t bytes_on_disk() const {
    std::uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir())) bytes += entry.file_size();
    return bytes;
  }

  const TemporaryFolder folder_;
  const TestSet plain_ = TestSet(kSamples);
  const std::shared_ptr<TestSet> source_ = std::make_shared<TestSet>(kSamples);
};

}  // namespace slipstream
