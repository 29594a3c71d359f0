#include "datasets/shard_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "core/files.h"
#include "core/fingerprint.h"
#include "datasets/shard_index_cache.h"
#include "support/source_folder.h"
#include "support/tar_writer.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(ShardName, ParsesKeyFieldAndCompression) {
  const auto parse = [](std::string_view name) {
    const auto parsed = parse_shard_name(name);
    if (!parsed) return std::string("nothing");
    return parsed->key + " " + std::to_string(static_cast<int>(parsed->field)) +
           std::to_string(static_cast<int>(parsed->compression));
  };
  EXPECT_EQ(parse("a.jpg"), "a 00");
  EXPECT_EQ(parse("./x.y/a.JPEG"), "x.y/a 00");
  EXPECT_EQ(parse("a.cls"), "a 10");
  EXPECT_EQ(parse("a.seg.png"), "a 20");
  EXPECT_EQ(parse("a.Mask.PNG"), "a 20");
  EXPECT_EQ(parse("a.jpg.zst"), "a 01");
  EXPECT_EQ(parse("a.mask.png.lz4"), "a 22");
  for (const char* name :
       {"a", "", "a.b.jpg", ".hidden.jpg", "x/.jpg", "a.json", "a.zst", "a.", "x.jpg/a"}) {
    EXPECT_EQ(parse(name), "nothing") << name;
  }
}

std::string make_shard(std::size_t samples) {
  TarWriter tar;
  for (std::size_t i = 0; i < samples; ++i) {
    tar.add(std::to_string(i) + ".cls", "7");
    tar.add(std::to_string(i) + ".png.lz4", std::string(i, 'x'));
  }
  tar.end();
  return tar.bytes();
}

class ShardIndexTest : public testing::Test {
 protected:
  fs::path shard() const { return folder_.path() / "shard.tar"; }
  fs::path index() const { return folder_.path() / "shard.tar.slipstream-index"; }
  void write(const std::string& bytes) const { write_file_atomically(shard(), bytes); }
  /// Loads the index at `path`; the result says whether it had to be built.
  StoredShardIndex load(const fs::path& path) const {
    return load_shard_index(shard(), StampedFile(shard()), {path});
  }

  TemporaryFolder folder_;
};

TEST_F(ShardIndexTest, HoldsOffsetAndSizeOfEveryMember) {
  write(make_shard(3));
  const StampedFile file(shard());
  const std::vector<std::byte> bytes = build_shard_index(file, file.stamp());
  const auto index = ShardIndex::parse(bytes, file.stamp());
  ASSERT_TRUE(index);
  ASSERT_EQ(index->size(), 3u);
  EXPECT_EQ(index->fields().text(), "image, label");
  const ShardSample sample = index->sample(2);
  const ShardMember& image = sample.members[static_cast<std::size_t>(ShardField::image)];
  const ShardMember& label = sample.members[static_cast<std::size_t>(ShardField::label)];
  EXPECT_EQ(label.offset, 512u + 1024 + 512 + 1024 + 1024);
  EXPECT_EQ(label.size, 1u);
  EXPECT_EQ(sample.header, label.offset + 512);
  EXPECT_EQ(image.offset, label.offset + 1024);
  EXPECT_EQ(image.size, 2u);
  EXPECT_EQ(image.compression, Compression::lz4);
}

TEST_F(ShardIndexTest, SymlinkAtIndexPathIsReplacedNotFollowed) {
  write(make_shard(3));
  const fs::path other = folder_.path() / "other";
  write_file_atomically(other, std::string("mine"));
  fs::create_symlink(other, index());
  EXPECT_EQ(load(index())->size(), 3u);
  EXPECT_EQ(read_text(other), "mine");
  EXPECT_FALSE(fs::is_symlink(index()));
  EXPECT_GT(fs::file_size(index()), 0u);
}

TEST_F(ShardIndexTest, OversizedIndexFileIsRebuilt) {
  write(make_shard(3));
  write_file_atomically(index(), std::string("x"));
  fs::resize_file(index(), std::uintmax_t{1} << 40);
  EXPECT_EQ(load(index())->size(), 3u);
  EXPECT_LT(fs::file_size(index()), 1024u);
}

TEST_F(ShardIndexTest, AnyDamagedByteOrTruncationFailsToParse) {
  write(make_shard(2));
  const StampedFile file(shard());
  const std::vector<std::byte> good = build_shard_index(file, file.stamp());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{1};
    EXPECT_FALSE(ShardIndex::parse(bad, file.stamp())) << i;
    bad = good;
    bad.resize(i);
    EXPECT_FALSE(ShardIndex::parse(bad, file.stamp())) << i;
  }
}

TEST_F(ShardIndexTest, IndexOfAnotherFileStampFailsToParse) {
  write(make_shard(2));
  const StampedFile file(shard());
  const std::vector<std::byte> bytes = build_shard_index(file, file.stamp());
  for (int i = 0; i < 4; ++i) {
    FileStamp other = file.stamp();
    other.size += i == 0;
    other.mtime_ns += i == 1;
    other.inode += i == 2;
    other.ctime_ns += i == 3;
    EXPECT_FALSE(ShardIndex::parse(bytes, other)) << i;
  }
}

TEST_F(ShardIndexTest, MemberBeyondTheShardFailsToParse) {
  write(make_shard(1));
  const StampedFile file(shard());
  const std::vector<std::byte> good = build_shard_index(file, file.stamp());
  for (const std::size_t word : {8, 9, 10, 11, 12}) {
    std::vector<std::byte> bad = good;
    std::memset(bad.data() + word * 8, 0x7f, 8);
    const std::uint64_t digest = fingerprint(bad.data() + 16, bad.size() - 16);
    std::memcpy(bad.data() + 8, &digest, 8);
    EXPECT_FALSE(ShardIndex::parse(bad, file.stamp())) << word;
  }
}

TEST_F(ShardIndexTest, IndexIsReusedUntilTheShardChanges) {
  write(make_shard(2));
  EXPECT_EQ(load(index())->size(), 2u);
  const auto first = fs::last_write_time(index());
  fs::last_write_time(index(), first - std::chrono::hours(1));
  EXPECT_EQ(load(index())->size(), 2u);
  EXPECT_EQ(fs::last_write_time(index()), first - std::chrono::hours(1));
  write(make_shard(3));
  EXPECT_EQ(load(index())->size(), 3u);
  write_file_atomically(index(), std::string_view("rubbish"));
  EXPECT_EQ(load(index())->size(), 3u);
  EXPECT_GT(fs::file_size(index()), 100u);
}

TEST_F(ShardIndexTest, IndexIsRebuiltIfOnlyCtimeChanged) {
  write(make_shard(2));
  load(index());
  const auto indexed = fs::last_write_time(index()) - std::chrono::hours(1);
  fs::last_write_time(index(), indexed);
  const auto written = fs::last_write_time(shard());
  const FileStamp before = StampedFile(shard()).stamp();
  FileStamp now = before;
  while (now.ctime_ns == before.ctime_ns) {  // waits until the file system's clock has advanced
    std::fstream(shard(), std::ios::in | std::ios::out | std::ios::binary) << "0";
    fs::last_write_time(shard(), written);
    now = StampedFile(shard()).stamp();
  }
  ASSERT_TRUE(now.has_same_contents(before));
  load(index());
  EXPECT_NE(fs::last_write_time(index()), indexed);
}

TEST_F(ShardIndexTest, IndexStaysInMemoryIfItCannotBeWritten) {
  write(make_shard(2));
  EXPECT_EQ(load("/proc/nowhere/index")->size(), 2u);
}

TEST_F(ShardIndexTest, IndexPathIsNextToTheShardOrInGivenFolder) {
  const auto paths = index_paths("data/a.tar", "");
  EXPECT_EQ(paths.at(0), "data/a.tar.slipstream-index");
  const auto given = index_paths("data/a.tar", "/indexes");
  ASSERT_EQ(given.size(), 1u);
  EXPECT_EQ(given[0].parent_path(), "/indexes");
  EXPECT_NE(given[0], index_paths("other/a.tar", "/indexes")[0]);
  EXPECT_THAT(given[0].filename().string(), HasSubstr("a.tar.slipstream-index"));
}

TEST_F(ShardIndexTest, CacheFolderFollowsXdgCacheHomeAndHome) {
  ::setenv("XDG_CACHE_HOME", "/elsewhere", 1);
  EXPECT_EQ(index_paths("a.tar", "").at(1).parent_path(), "/elsewhere/slipstream");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  ::setenv("HOME", "/nowhere", 1);
  EXPECT_EQ(index_paths("a.tar", "").at(1).parent_path(), "/nowhere/.cache/slipstream");
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(index_paths("a.tar", "").size(), 1u);
}

TEST_F(ShardIndexTest, IndexIsStoredAtFirstWritablePath) {
  write(make_shard(2));
  const fs::path cached = folder_.path() / "new" / "cache" / "index";
  for (int i = 0; i < 2; ++i) {
    const auto index =
        load_shard_index(shard(), StampedFile(shard()), {"/proc/nowhere/index", cached});
    EXPECT_EQ(index->size(), 2u);
    EXPECT_TRUE(fs::exists(cached));
  }
}

TEST(ShardIndexOfPythonArchives, ReadsUstarPaxAndGnuFormats) {
  for (const char* name : {"ustar.tar", "pax.tar", "gnu.tar"}) {
    const StampedFile file(source_folder() / "fuzz" / "corpus" / "tar" / name);
    const std::vector<std::byte> bytes = build_shard_index(file, file.stamp());
    const auto index = ShardIndex::parse(bytes, file.stamp());
    ASSERT_TRUE(index);
    EXPECT_EQ(index->size(), 2u) << name;
    EXPECT_EQ(index->sample(1).members[0].size, 5u) << name;
  }
}

/// A simulated shard without a file: pairs of an empty image and a label. Requests must begin at a
/// block.
class EndlessShard : public ByteSource {
 public:
  explicit EndlessShard(std::size_t samples) : samples_(samples) {}
  std::uint64_t size() const override { return (samples_ * 3 + 2) * 512; }
  void read(std::uint64_t offset, std::span<std::byte> to) const override {
    while (!to.empty()) {
      const std::size_t bytes = std::min<std::size_t>(512, to.size());
      const TarWriter::Block whole = block(offset / 512);
      std::memcpy(to.data(), whole.data(), bytes);
      to = to.subspan(bytes);
      offset += bytes;
    }
  }

 private:
  TarWriter::Block block(std::uint64_t number) const {
    const std::uint64_t sample = number / 3;
    TarWriter::Block out{};
    const std::string key = "images/of/some/length/" + std::to_string(sample);
    if (sample < samples_ && number % 3 == 0) out = TarWriter::header(key + ".cls", 1);
    if (sample < samples_ && number % 3 == 1) out[0] = '7';
    if (sample < samples_ && number % 3 == 2) out = TarWriter::header(key + ".jpg", 0);
    return out;
  }
  std::size_t samples_;
};

constexpr std::size_t kManySamples = 100'000;  // two members per sample

std::vector<std::byte> index_of_many() {
  const EndlessShard shard(kManySamples);
  const FileStamp stamp{shard.size(), 1, 1};
  std::vector<std::byte> bytes = build_shard_index(shard, stamp);
  const auto index = ShardIndex::parse(bytes, stamp);
  if (!index || index->size() != kManySamples) throw Error("not the index of all samples");
  return bytes;
}

TEST(ShardIndexOfManyMembers, HoldsEverySample) { EXPECT_GT(index_of_many().size(), kManySamples); }

#ifndef SLIPSTREAM_SANITIZED
std::int64_t peak_bytes() {
  ::rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return 1024 * std::int64_t{usage.ru_maxrss};
}

/// Runs in a process whose peak starts at the memory in use now, not at the largest earlier test.
TEST(ShardIndexOfManyMembers, PeakMemoryStaysBelow200BytesPerSample) {
  ::malloc_trim(0);
  EXPECT_EXIT(
      {
        const std::int64_t before = peak_bytes();
        const std::size_t index = index_of_many().size();
        const auto grown = static_cast<std::size_t>(peak_bytes() - before);
        std::fprintf(stderr, "%zu bytes for an index of %zu\n", grown, index);
        // A sample needs 40 bytes in the index and 16 for its key; each is in a vector that doubles
        // its capacity.
        std::_Exit(grown >= index && grown < 200 * kManySamples ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace slipstream
