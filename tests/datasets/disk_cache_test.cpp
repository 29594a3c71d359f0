#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "core/files.h"
#include "datasets/cache_file.h"
#include "datasets/disk_cache_fixture.h"
#include "support/array_values.h"
#include "support/made_set.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(DiskCacheTest, SourceIsReadOncePerSampleAcrossRestarts) {
  {
    const auto cached = open();
    EXPECT_EQ(wrong_samples(*cached, plain_), 0U);
    EXPECT_EQ(wrong_samples(*cached, plain_), 0U);
    const DiskCacheState state = cache_state(cached);
    EXPECT_EQ(state.stored, kSamples);
    EXPECT_EQ(state.misses, kSamples);
    EXPECT_EQ(state.hits, kSamples);
    EXPECT_EQ(state.bytes, bytes_on_disk());
    EXPECT_EQ(state.stop_reason, "");
  }
  const auto again = open();
  EXPECT_EQ(wrong_samples(*again, plain_), 0U);
  EXPECT_EQ(cache_state(again).hits, kSamples);
  EXPECT_EQ(source_->reads.count(), kSamples);
}

/// Samples with every type, number of dimensions and flag, and with empty fields.
std::shared_ptr<const Dataset> many_forms() {
  return made_set(3, std::vector<FieldSpec>(6), [](std::size_t index, Sample& out) {
    const auto n = static_cast<std::int64_t>(index);
    out.fields.resize(6);
    out.fields[0].array = counting<std::uint8_t>(DType::uint8, {n, 2, 3, 2});
    out.fields[1].array = counting<std::int32_t>(DType::int32, {2, n + 1, 3});
    out.fields[2].array = counting<std::int64_t>(DType::int64, {});
    out.fields[3].array = counting<float>(DType::float32, {5, n});
    out.fields[4].array = counting<std::uint8_t>(DType::uint8, {7 + n});
    out.fields[5].array = counting<std::int32_t>(DType::int32, {0});
    for (std::size_t i = 0; i < 6; ++i) out.fields[i].encoded = (i + index) % 2 == 0;
  });
}

TEST_F(DiskCacheTest, CachedSamplesKeepTypeShapeAndEncodedFlag) {
  const auto cached = disk_cached(many_forms(), options());
  const auto expected = many_forms();
  for (int round = 0; round < 2; ++round) EXPECT_EQ(wrong_samples(*cached, *expected), 0U);
  EXPECT_EQ(cache_state(cached).hits, 3U);
}

TEST_F(DiskCacheTest, ForwardsMetadataAndDecoding) {
  const auto cached = open();
  EXPECT_EQ(cached->size(), kSamples);
  EXPECT_EQ(cached->name(3), source_->name(3));
  EXPECT_EQ(cached->identity(), source_->identity());
  EXPECT_EQ(cached->fields()[1].classes, 10);
  EXPECT_FALSE(cached->decodes_by_default());
  Sample sample = empty_sample();
  HostArray spare;
  cached->read(5, sample);
  cached->decode(cached->fields()[0], {}, sample.fields[0], spare);
  EXPECT_EQ(sample.fields[0].array.view().data[4], sample_pixel(5, 4));
  EXPECT_FALSE(disk_cache_state(*source_).has_value());
}

class Numbered final : public LabeledDataset {
 public:
  explicit Numbered(std::int64_t first) : first_(first) {}
  std::size_t size() const override { return 3; }
  void read(std::size_t index, Sample& out) const override {
    *out.fields[0].array.reset(DType::int64, {}).as<std::int64_t>() = label(index);
  }
  std::vector<FieldSpec> fields() const override {
    return {{"label", FieldKind::label, DType::int64, {}, 0}};
  }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::int64_t label(std::size_t index) const override {
    return first_ + static_cast<std::int64_t>(index);
  }
  bool decodes_by_default() const override { return true; }

 private:
  std::int64_t first_;
  std::vector<std::string> names_ = {"a", "b"};
};

std::shared_ptr<const LabeledDataset> numbered(std::int64_t first) {
  return std::make_shared<Numbered>(first);
}

TEST_F(DiskCacheTest, KeepsLabelsAndClassNames) {
  const std::shared_ptr<const LabeledDataset> cached = disk_cached(numbered(4), options());
  EXPECT_EQ(cached->label(2), 6);
  EXPECT_THAT(cached->class_names(), ElementsAre("a", "b"));
  EXPECT_TRUE(cached->decodes_by_default());
}

TEST_F(DiskCacheTest, BatchesAreTheSameForAnyNumberOfWorkers) {
  const auto run = [](std::shared_ptr<const Dataset> dataset, unsigned workers) {
    DataLoader loader(std::move(dataset), two_transforms(),
                      {{.batch_size = 4}, {.num_workers = workers}});
    return take(loader, 15);
  };
  const std::vector<Bytes> expected = run(source_, 1);
  for (const unsigned workers : {1U, 2U, 8U}) {
    EXPECT_EQ(
        run(disk_cached(source_, {folder_.path() / std::to_string(workers), kAmpleDisk}), workers),
        expected);
  }
  EXPECT_EQ(run(open(kIndexBytes + 1000), 3), expected);
}

TEST_F(DiskCacheTest, FilesNeverExceedMaxBytes) {
  const std::uint64_t manifest = (open(), fs::file_size(dir() / "cache.json"));
  const std::uint64_t limit = kIndexBytes + manifest + 5 * kRecordBytes + kRecordBytes - 1;
  for (int restart = 0; restart < 3; ++restart) {
    const auto cached = open(limit);
    for (int round = 0; round < 2; ++round) EXPECT_EQ(wrong_samples(*cached, plain_), 0U);
    const DiskCacheState state = cache_state(cached);
    EXPECT_EQ(state.hits, restart == 0 ? 5U : 10U);
    EXPECT_EQ(state.stop_reason, "full: max_bytes is " + std::to_string(limit));
    EXPECT_EQ(state.bytes, limit - (kRecordBytes - 1));
    EXPECT_EQ(bytes_on_disk(), state.bytes);
  }
}

TEST_F(DiskCacheTest, CachesOfOneFolderShareSamplesAndLimit) {
  const std::uint64_t manifest = (open(), fs::file_size(dir() / "cache.json"));
  const auto a = open(kIndexBytes + manifest + 6 * kRecordBytes);
  const auto b = open(kIndexBytes + manifest + 6 * kRecordBytes);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(gives(*a, i, plain_));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(gives(*b, i, plain_));
  for (std::size_t i = 0; i < 7; ++i) EXPECT_TRUE(gives(*a, i, plain_));
  EXPECT_EQ(cache_state(b).hits, 3U);
  EXPECT_EQ(cache_state(a).hits, 5U);
  EXPECT_EQ(cache_state(a).stored, 4U);
  EXPECT_THAT(cache_state(a).stop_reason, StartsWith("full"));
}

TEST_F(DiskCacheTest, ConcurrentReadersOfTwoCachesGetCorrectSamples) {
  for (const std::uint64_t limit : {kIndexBytes + 400 + 12 * kRecordBytes, kAmpleDisk}) {
    fs::remove_all(dir());
    const auto a = open(limit);
    const auto b = open(limit);
    std::atomic<std::size_t> wrong = 0;
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 6; ++t) {
        threads.emplace_back([&, t] {
          for (std::size_t i = 0; i < 5 * kSamples; ++i) {
            const Dataset& cached = t % 2 == 0 ? *a : *b;
            if (!gives(cached, i * (t < 3 ? 1 : 7) % kSamples, plain_)) ++wrong;
          }
        });
      }
    }
    EXPECT_EQ(wrong, 0U);
    EXPECT_LE(bytes_on_disk(), limit);
    const auto later = open(limit);
    EXPECT_EQ(wrong_samples(*later, plain_), 0U);
    if (limit == kAmpleDisk) {
      EXPECT_EQ(cache_state(later).hits, kSamples);
    } else {
      EXPECT_GT(cache_state(later).hits, 0U);
    }
  }
}

TEST_F(DiskCacheTest, ConcurrentMissesStoreTheSampleOnce) {
  constexpr int kThreads = 4;
  std::barrier together(kThreads);
  const auto large = made_set(1, std::vector<FieldSpec>(1), [&](std::size_t, Sample& out) {
    const MutableArray bytes = out.fields[0].array.reset(DType::uint8, {16 << 20});
    std::memset(bytes.data, 7, bytes.bytes());
    together.arrive_and_wait();
  });
  const auto cached = disk_cached(large, options(100 << 20));
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        Sample sample = empty_sample(1);
        cached->read(0, sample);
      });
    }
  }
  EXPECT_EQ(cache_state(cached).misses, 4U);
  EXPECT_EQ(cache_state(cached).stored, 1U);
  EXPECT_EQ(fs::file_size(dir() / "cache.samples"), 40 + (16 << 20));
}

TEST_F(DiskCacheTest, SampleStoredByAnotherCacheIsNotStoredAgain) {
  Gate gate;
  std::atomic<int> readers = 0;
  source_->on_read = [&](std::size_t) {
    if (readers++ == 0) gate.wait();
  };
  const auto slow = open();
  const auto quick = open();
  std::jthread waiting([&] { EXPECT_TRUE(gives(*slow, 3, plain_)); });
  source_->reads.wait_for(1);
  while (readers == 0) std::this_thread::yield();
  EXPECT_TRUE(gives(*quick, 3, plain_));
  gate.open();
  waiting.join();
  EXPECT_EQ(cache_state(quick).stored, 1U);
  EXPECT_EQ(cache_state(slow).stored, 0U);
  EXPECT_EQ(fs::file_size(dir() / "cache.samples"), kRecordBytes);
}

TEST_F(DiskCacheTest, StoringWaitsForTheFileLock) {
  const auto cached = open();
  const fs::path records = dir() / "cache.samples";
  CacheFile other;
  ASSERT_EQ(other.open(records, true), 0);
  std::jthread reader;
  {
    const CacheFile::Hold hold(other);
    reader = std::jthread([&] { EXPECT_TRUE(gives(*cached, 0, plain_)); });
    source_->reads.wait_for(1);
    // long enough for a reader that does not wait to end
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(fs::file_size(records), 0U);
    EXPECT_EQ(other.resize(1000), 0);
  }
  reader.join();
  EXPECT_EQ(fs::file_size(records), 1000 + kRecordBytes);
  EXPECT_TRUE(gives(*cached, 0, plain_));
  EXPECT_EQ(cache_state(cached).hits, 1U);
}

TEST_F(DiskCacheTest, SampleWithReadErrorIsNotStored) {
  source_->on_read = [](std::size_t index) {
    if (index == 1) throw Error("gone");
  };
  const auto cached = open();
  Sample sample = empty_sample();
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(thrown_by([&] { cached->read(1, sample); }), "Error: gone");
  }
  EXPECT_EQ(cache_state(cached).stored, 0U);
  source_->on_read = nullptr;
  EXPECT_TRUE(gives(*cached, 1, plain_));
}

TEST_F(DiskCacheTest, FolderOfAnotherDatasetIsRefused) {
  open();
  EXPECT_THAT(thrown_by([&] { disk_cached(std::make_shared<TestSet>(21), options()); }),
              AllOf(StartsWith("Refused: '" + dir().string() + "' holds the disk cache of another"),
                    HasSubstr("remove this one"), HasSubstr("samples: 20, not 21")));
  const auto wider = std::make_shared<TestSet>(kSamples);
  wider->image_side = 9;
  EXPECT_THAT(thrown_by([&] { disk_cached(wider, options()); }),
              HasSubstr("image, uint8, 9 x 9 x 3"));

  DiskCacheOptions versioned = options();
  versioned.identity = "scans, second version";
  EXPECT_THAT(thrown_by([&] { disk_cached(source_, versioned); }),
              HasSubstr("not \"scans, second version\""));
}

TEST_F(DiskCacheTest, FolderOfDatasetWithOtherLabelsIsRefused) {
  disk_cached(numbered(0), options());
  EXPECT_THAT(thrown_by([&] { disk_cached(numbered(1), options()); }), HasSubstr("identity: "));
}

TEST_F(DiskCacheTest, GivenIdentityReplacesTheSampleNames) {
  DiskCacheOptions given = options();
  given.identity = "scans \xff";
  wrong_samples(*disk_cached(source_, given), plain_);
  const auto renamed =
      disk_cached(subset(std::shared_ptr<const Dataset>(source_),
                         {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}),
                  given);
  EXPECT_EQ(wrong_samples(*renamed, plain_), 0U);
  EXPECT_EQ(cache_state(renamed).hits, kSamples);
}

TEST_F(DiskCacheTest, InvalidOptionsAreRefused) {
  EXPECT_THAT(thrown_by([&] { disk_cached(std::shared_ptr<const Dataset>(), options()); }),
              StartsWith("Refused: the data set"));
  EXPECT_THAT(thrown_by([&] { disk_cached(source_, {.max_bytes = kAmpleDisk}); }),
              StartsWith("Refused: a disk cache needs a folder"));
  EXPECT_THAT(
      thrown_by([&] { open(kIndexBytes); }),
      AllOf(StartsWith("Refused: a disk cache of 640 bytes"), HasSubstr("32 bytes per sample")));
  EXPECT_FALSE(fs::exists(dir()));

  write_file_atomically(folder_.path() / "file", "x");
  EXPECT_THAT(thrown_by([&] {
                disk_cached(source_, {folder_.path() / "file", kAmpleDisk});
              }),
              AllOf(StartsWith("Refused: "), HasSubstr("is not a folder")));

  const auto wide = made_set(1, std::vector<FieldSpec>(33), [](std::size_t, Sample&) {});
  EXPECT_THAT(thrown_by([&] { disk_cached(wide, options()); }),
              HasSubstr("33 fields; a disk cache takes at most 32"));
}

TEST_F(DiskCacheTest, InvalidManifestIsRefused) {
  fs::create_directories(dir());
  for (const char* text : {"", "{}", "[1]", "{\"slipstream_disk_cache\": 2}"}) {
    write_file_atomically(dir() / "cache.json", text);
    EXPECT_THAT(thrown_by([&] { open(); }),
                AllOf(StartsWith("Refused: "), HasSubstr("is not the manifest"),
                      HasSubstr("name another folder")));
  }
}

}  // namespace
}  // namespace slipstream
