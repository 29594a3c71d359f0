#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <set>

#include "core/files.h"
#include "datasets/disk_cache_fixture.h"
#include "slipstream/core/philox.h"
#include "support/thrown.h"
#include "support/unprivileged.h"
#include "support/write_limit.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

class DiskCacheFault : public DiskCacheTest {
 protected:
  void fill() const { wrong_samples(*open(), plain_); }

  void damage(const char* file, std::uint64_t at, std::string_view bytes) const {
    std::fstream stream(dir() / file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    ASSERT_TRUE(stream.good());
  }
  char byte_at(const char* file, std::uint64_t at) const { return read_text(dir() / file).at(at); }
};

TEST_F(DiskCacheFault, SymlinksInCacheFolderAreNotFollowed) {
  const fs::path other = folder_.path() / "other";
  for (const char* name : {"cache.samples", "cache.index"}) {
    if (fs::exists(dir())) fs::remove_all(dir());
    write_file_atomically(other, std::string("mine"));
    fs::create_directories(dir());
    fs::create_symlink(other, dir() / name);
    const auto cached = open();
    EXPECT_EQ(wrong_samples(*cached, plain_), 0U) << name;
    EXPECT_EQ(cache_state(cached).stored, 0U) << name;
    EXPECT_THAT(cache_state(cached).stop_reason, HasSubstr(name));
    EXPECT_EQ(read_text(other), "mine") << name;
  }
  fs::remove_all(dir());
  fs::create_directories(dir());
  fs::create_symlink(other, dir() / "cache.json");
  EXPECT_THAT(thrown_by([&] { open(); }), StartsWith("Refused: "));
  EXPECT_EQ(read_text(other), "mine");
}

TEST_F(DiskCacheFault, DamagedSampleIsReadFromSourceAndStoredAgain) {
  struct FilePosition {
    const char* file;
    std::uint64_t at;
  };
  // Sample 3 was stored as the fourth. The positions are: its head's dtype, rank and dimension, its
  // last byte, and its slot.
  const std::uint64_t record = 3 * kRecordBytes;
  const std::uint64_t slot = 3 * 32;
  for (const auto& [file, at] :
       {FilePosition{"cache.samples", record}, FilePosition{"cache.samples", record + 6},
        FilePosition{"cache.samples", record + 8},
        FilePosition{"cache.samples", record + kRecordBytes - 1}, FilePosition{"cache.index", slot},
        FilePosition{"cache.index", slot + 8}, FilePosition{"cache.index", slot + 16},
        FilePosition{"cache.index", slot + 31}}) {
    if (fs::exists(dir())) fs::remove_all(dir());
    fill();
    const char other = static_cast<char>(byte_at(file, at) ^ 0x41);
    damage(file, at, {&other, 1});
    const auto cached = open();
    EXPECT_EQ(wrong_samples(*cached, plain_), 0U) << file << at;
    EXPECT_EQ(cache_state(cached).stored, 1U) << file << at;
    EXPECT_EQ(wrong_samples(*cached, plain_), 0U) << file << at;
    EXPECT_EQ(cache_state(cached).hits, 2 * kSamples - 1) << file << at;
  }
}

TEST_F(DiskCacheFault, RandomDamageNeverReturnsWrongSamples) {
  fill();
  RandomStream random({.seed = 7});
  for (int round = 0; round < 60; ++round) {
    const char* const file = round % 2 == 0 ? "cache.index" : "cache.samples";
    const auto size = static_cast<std::uint32_t>(fs::file_size(dir() / file));
    std::string garbage(1 + random.below(100), '\0');
    for (char& byte : garbage) byte = static_cast<char>(random.below(256));
    damage(file, random.below(size), garbage);
    EXPECT_EQ(wrong_samples(*open(), plain_), 0U) << round;
  }
}

TEST_F(DiskCacheFault, TruncatedOrMissingFilesAreFilledAgain) {
  for (const char* file : {"cache.index", "cache.samples"}) {
    for (const std::uint64_t left : {0, 100, 333}) {
      fill();
      fs::resize_file(dir() / file, left);
      EXPECT_EQ(wrong_samples(*open(), plain_), 0U);
      const auto again = open();
      EXPECT_EQ(wrong_samples(*again, plain_), 0U);
      EXPECT_EQ(cache_state(again).hits, kSamples);
    }
    fs::remove(dir() / file);
    EXPECT_EQ(wrong_samples(*open(), plain_), 0U);
  }
}

TEST_F(DiskCacheFault, RecordsOfOtherDatasetAreIgnoredWithoutManifest) {
  fill();
  fs::remove(dir() / "cache.json");
  const auto other = std::make_shared<TestSet>(kSamples);
  other->change = [](std::size_t, Sample& sample) {
    sample.fields[0].array.span().data[1] = std::byte{1};
  };
  DiskCacheOptions second = options();
  second.identity = "another";
  const auto cached = disk_cached(other, second);
  EXPECT_EQ(wrong_samples(*cached, *other), 0U);
  EXPECT_EQ(cache_state(cached).hits, 0U);
}

TEST_F(DiskCacheFault, KilledRunLeavesOnlyValidSamples) {
  // The child is killed while it reads and stores samples; the parent waits for the first 50.
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const auto large = std::make_shared<TestSet>(300);
  large->change = [](std::size_t index, Sample& out) {
    const MutableArray image = out.fields[0].array.reset(DType::uint8, {20'000});
    std::memset(image.data, static_cast<int>(index % 251), image.bytes());
  };
  const ::pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto cached = disk_cached(large, options(std::uint64_t{1} << 30));
    Sample sample = empty_sample();
    for (std::size_t i = 0; i < large->size(); ++i) {
      cached->read(i, sample);
      if (::write(pipe[1], "x", 1) != 1) break;
    }
    ::pause();
    ::_exit(0);
  }
  ::close(pipe[1]);
  char byte = 0;
  for (int i = 0; i < 50; ++i) ASSERT_EQ(::read(pipe[0], &byte, 1), 1);
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  ::close(pipe[0]);

  const auto cached = disk_cached(large, options(std::uint64_t{1} << 30));
  EXPECT_EQ(wrong_samples(*cached, *large), 0U);
  EXPECT_GE(cache_state(cached).hits, 50U);
  EXPECT_EQ(cache_state(cached).hits + cache_state(cached).stored, large->size());
}

TEST_F(DiskCacheFault, FolderWithoutManifestIsCompleted) {
  fs::create_directories(dir());
  write_file_atomically(dir() / "cache.samples", "");
  fill();
  const auto cached = open();
  EXPECT_EQ(wrong_samples(*cached, plain_), 0U);
  EXPECT_EQ(cache_state(cached).hits, kSamples);
}

TEST_F(DiskCacheFault, FullDiskStopsStoringButNotReading) {
  const auto cached = open();
  {
    const WriteLimit limit(8 * kRecordBytes + 50);
    EXPECT_EQ(wrong_samples(*cached, plain_), 0U);
    EXPECT_EQ(wrong_samples(*cached, plain_), 0U);
  }
  const DiskCacheState state = cache_state(cached);
  EXPECT_EQ(state.stored, 8U);
  EXPECT_EQ(state.hits, 8U);
  EXPECT_THAT(state.stop_reason, StartsWith("cannot write to '" + dir().string() + "'"));
  EXPECT_EQ(fs::file_size(dir() / "cache.samples"), 8 * kRecordBytes);

  const auto later = open();
  EXPECT_EQ(wrong_samples(*later, plain_), 0U);
  EXPECT_EQ(cache_state(later).stored, kSamples - 8);
}

TEST_F(DiskCacheFault, RecordIsRemovedIfItsSlotCannotBeWritten) {
  const auto many = std::make_shared<TestSet>(1000);
  const auto cached = disk_cached(many, options());
  {
    const WriteLimit limit(999 * 32);
    EXPECT_TRUE(gives(*cached, 0, *many));
    EXPECT_TRUE(gives(*cached, 999, *many));
  }
  EXPECT_EQ(cache_state(cached).stored, 1U);
  EXPECT_THAT(cache_state(cached).stop_reason, HasSubstr("File too large"));
  EXPECT_EQ(fs::file_size(dir() / "cache.samples"), kRecordBytes);
}

TEST_F(DiskCacheFault, SourceIsReadIfCacheFilesCannotBeCreated) {
  write_file_atomically(folder_.path() / "file", "x");
  const auto below_a_file = disk_cached(source_, {folder_.path() / "file" / "cache", kAmpleDisk});
  EXPECT_EQ(wrong_samples(*below_a_file, plain_), 0U);
  EXPECT_THAT(cache_state(below_a_file).stop_reason, StartsWith("cannot make '"));

  for (const char* file : {"cache.samples", "cache.index"}) {
    if (fs::exists(dir())) fs::remove_all(dir());
    fs::create_directories(dir() / file);
    const auto cached = open();
    for (int round = 0; round < 2; ++round) EXPECT_EQ(wrong_samples(*cached, plain_), 0U);
    EXPECT_THAT(cache_state(cached).stop_reason, HasSubstr(file));
    EXPECT_EQ(cache_state(cached).hits, 0U);
  }
}

TEST_F(DiskCacheFault, SourceIsReadIfDiskIsFullFromTheStart) {
  // too little for the manifest, or too little for the index
  for (const ::rlim_t bytes : {0, 500}) {
    const WriteLimit limit(bytes);
    const auto cached = open();
    EXPECT_EQ(wrong_samples(*cached, plain_), 0U);
    EXPECT_THAT(cache_state(cached).stop_reason, StartsWith("cannot write"));
  }
}

TEST_F(DiskCacheFault, ReadOnlyCacheServesHitsAndStoresNothing) {
  {
    const auto cached = open();
    for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(gives(*cached, i, plain_));
  }
  for (const char* file : {"cache.json", "cache.index", "cache.samples"}) {
    fs::permissions(dir() / file, fs::perms(0444));
  }
  fs::permissions(folder_.path(), fs::perms::all);
  const Unprivileged user;
  const auto cached = open();
  EXPECT_EQ(wrong_samples(*cached, plain_), 0U);
  EXPECT_EQ(cache_state(cached).hits, 5U);
  EXPECT_EQ(cache_state(cached).stored, 0U);
  EXPECT_THAT(cache_state(cached).stop_reason, HasSubstr("cache.samples': Permission denied"));
  EXPECT_THROW(disk_cached(std::make_shared<TestSet>(3), options()), Refused);
}

TEST_F(DiskCacheFault, CacheWithUnreadableManifestIsNotUsed) {
  fill();
  fs::permissions(dir() / "cache.json", fs::perms::none);
  fs::permissions(dir() / "cache.samples", fs::perms(0666));
  fs::permissions(folder_.path(), fs::perms::all);
  const Unprivileged user;
  const auto cached = open();
  EXPECT_EQ(wrong_samples(*cached, plain_), 0U);
  EXPECT_EQ(cache_state(cached).hits, 0U);
  EXPECT_THAT(cache_state(cached).stop_reason, StartsWith("cannot read"));
}

}  // namespace
}  // namespace slipstream
