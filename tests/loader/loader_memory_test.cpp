#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "loader/loader_fixture.h"
#include "slipstream/transforms/transforms.h"
#include "support/jpeg_set.h"

namespace slipstream {
namespace {

constexpr std::size_t kMemoryBatch = 20;
constexpr std::size_t kMemorySamples = 5000;  // 20 epochs
constexpr std::size_t kIndex = 8 * kMemorySamples;

/// Returns the resident memory of this process.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  std::int64_t resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// Returns the growth of memory between the 10,000th and the 100,000th sample.
std::int64_t growth(DataLoader& loader) {
  const auto walk = [&](std::size_t samples) {
    for (std::size_t i = 0; i < samples; i += kMemoryBatch) loader.release(loader.next(), nullptr);
  };
  walk(10'000);
  const std::int64_t before = resident_bytes();
  walk(90'000);
  return resident_bytes() - before;
}

DataLoaderOptions two_workers() { return {{.batch_size = kMemoryBatch}, {.num_workers = 2}}; }

void expect_flat(const DataLoaderOptions& options) {
  DataLoader loader(std::make_shared<TestSet>(kMemorySamples), two_transforms(), options);
  EXPECT_LE(growth(loader), 1 << 20);
}

TEST(LoaderMemory, DoesNotGrow) { expect_flat(two_workers()); }

TEST(LoaderMemory, DoesNotGrowWithReadAhead) {
  DataLoaderOptions options = two_workers();
  options.read_ahead.reads = 8;
  expect_flat(options);
}

TEST(LoaderMemory, DoesNotGrowWhenSkippingBadSamples) {
  const auto dataset = std::make_shared<TestSet>(kMemorySamples);
  dataset->on_decode = [](std::size_t index) {
    if (index % 50 == 0) throw Error("damaged");
  };
  DataLoaderOptions options = two_workers();
  options.on_bad_sample = OnBadSample::skip;
  DataLoader loader(dataset, two_transforms(), options);
  EXPECT_LE(growth(loader), 1 << 20);
  EXPECT_EQ(loader.skipped().samples.size(), kMemorySamples / 50);
}

TEST(LoaderMemory, DoesNotGrowWithAFullCache) {
  for (const char* after : {"read", "decode"}) {
    for (const unsigned reads : {0U, 8U}) {
      DataLoaderOptions options = two_workers();
      options.read_ahead.reads = reads;
      options.cache = CacheOptions{after, kIndex + (256 << 10)};
      DataLoader loader(std::make_shared<TestSet>(kMemorySamples), two_transforms(), options);
      EXPECT_LE(growth(loader), 1 << 20) << after << ", " << reads;
      EXPECT_FALSE(loader.cache().is_filling);
      EXPECT_LT(loader.cache().samples, kMemorySamples);
    }
  }
}

TEST(LoaderMemory, DoesNotGrowWithPartialDecodingOrJpegWire) {
  const std::vector<NamedOp> chain = {{"crop", RandomResizedCrop{8}},
                                      {"flip", RandomHorizontalFlip{}}};
  for (const Wire wire : {Wire::plain, Wire::jpeg}) {
    DataLoaderOptions options = two_workers();
    options.wire = {{"image", wire}};
    options.jpeg_bytes = 8 << 10;
    DataLoader loader(jpeg_set(40, {}, 20), chain, options);
    EXPECT_LE(growth(loader), 1 << 20) << static_cast<int>(wire);
  }
}

}  // namespace
}  // namespace slipstream
