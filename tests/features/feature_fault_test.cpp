#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>

#include "core/files.h"
#include "features/feature_store_fixture.h"
#include "support/thrown.h"
#include "support/unprivileged.h"
#include "support/write_limit.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class FeatureFault : public FeatureStoreTest {
 protected:
  /// Creates the folder again, with some records.
  void fill(std::size_t records = 20) const {
    if (fs::exists(folder())) fs::remove_all(folder());
    write(*open(), batch(0, records));
  }
  void flip(const char* file, std::uint64_t at, char bits = 0x10) const {
    std::string text = read_text(dir() / file);
    text.at(at) = static_cast<char>(text.at(at) ^ bits);
    std::ofstream(dir() / file, std::ios::binary) << text;
  }
};

TEST_F(FeatureFault, FlippedBitInRecordIsFoundAndRecordStoredAgain) {
  for (const std::uint64_t at : {0, 50, 95}) {
    fill();
    flip("0.records", 7 * kRecordBytes + at);
    const auto store = open();
    EXPECT_EQ(good_records(*store, batch(0, 20)), 19U);
    EXPECT_EQ(store->stats().damaged, 1U);
    EXPECT_EQ(store->find(batch(7, 1).entries)[0], -1);
    EXPECT_EQ(write(*store, batch(0, 20)), 1U);
    EXPECT_EQ(good_records(*store, batch(0, 20)), 20U);
    // The damaged record was removed on disk, too.
    const auto later = open();
    EXPECT_EQ(good_records(*later, batch(0, 20)), 20U);
    EXPECT_EQ(later->stats().damaged, 0U);
  }
}

TEST_F(FeatureFault, FlippedBitInSlotHidesOnlyThatRecord) {
  for (std::uint64_t at = 0; at < kSlotBytes; ++at) {
    fill();
    flip("0.index", 3 * kSlotBytes + at);
    const auto store = open();
    EXPECT_EQ(good_records(*store, batch(0, 20)), 19U) << at;
    EXPECT_EQ(store->find(batch(3, 1).entries)[0], -1) << at;
    EXPECT_EQ(write(*store, batch(0, 20)), 1U) << at;
    EXPECT_EQ(good_records(*open(), batch(0, 20)), 20U) << at;
  }
}

TEST_F(FeatureFault, RandomDamageNeverReturnsWrongRecords) {
  fill(40);
  RandomStream random({.seed = 3});
  for (int round = 0; round < 60; ++round) {
    const char* const file = round % 2 == 0 ? "0.index" : "0.records";
    const auto size = static_cast<std::uint32_t>(fs::file_size(dir() / file));
    flip(file, random.below(size), static_cast<char>(1 + random.below(255)));
    const auto store = open();
    good_records(*store, batch(0, 40));
    write(*store, batch(0, 40));
    EXPECT_EQ(good_records(*store, batch(0, 40)), 40U) << round;
  }
}

TEST_F(FeatureFault, TruncatedFilesAreFilledAgain) {
  for (const char* file : {"0.index", "0.records"}) {
    for (const std::uint64_t left : {0, 100, 333}) {
      fill();
      fs::resize_file(dir() / file, left);
      const auto store = open();
      EXPECT_LT(good_records(*store, batch(0, 20)), 20U);
      write(*store, batch(0, 20));
      EXPECT_EQ(good_records(*store, batch(0, 20)), 20U) << file << left;
      EXPECT_EQ(good_records(*open(), batch(0, 20)), 20U) << file << left;
    }
    fs::remove(dir() / file);
    const auto store = open();
    EXPECT_EQ(good_records(*store, batch(0, 20)), 0U);
    EXPECT_EQ(write(*store, batch(0, 20)), 20U);
    EXPECT_EQ(good_records(*store, batch(0, 20)), 20U);
  }
}

TEST_F(FeatureFault, TruncationWhileStoreIsOpenIsFound) {
  fill();
  const auto store = open();
  fs::resize_file(dir() / "0.records", 5 * kRecordBytes);
  EXPECT_EQ(good_records(*store, batch(0, 20)), 5U);
  EXPECT_EQ(write(*store, batch(0, 20)), 15U);
  EXPECT_EQ(good_records(*store, batch(0, 20)), 20U);
}

TEST_F(FeatureFault, KilledWriterLosesAtMostItsLastBatch) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  for (std::uint64_t kill_after = 1; kill_after < 40; kill_after += 6) {
    const ::pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto store = open("{\"run\": " + std::to_string(kill_after) + "}");
      for (std::uint64_t i = 0;; ++i) {
        write(*store, batch(8 * i, 8));
        if (::write(pipe[1], "x", 1) != 1) ::_exit(1);
      }
    }
    char byte = 0;
    for (std::uint64_t i = 0; i < kill_after; ++i) ASSERT_EQ(::read(pipe[0], &byte, 1), 1);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const int flags = ::fcntl(pipe[0], F_GETFL);
    ::fcntl(pipe[0], F_SETFL, flags | O_NONBLOCK);
    std::uint64_t finished = kill_after;
    while (::read(pipe[0], &byte, 1) == 1) ++finished;
    ::fcntl(pipe[0], F_SETFL, flags);
    const auto store = open("{\"run\": " + std::to_string(kill_after) + "}");
    const std::uint64_t records = store->stats().records;
    EXPECT_GE(records, 8 * finished);
    EXPECT_LE(records, 8 * (finished + 1));
    EXPECT_EQ(good_records(*store, batch(0, records)), records);
    // The space of an unfinished batch is used again.
    EXPECT_EQ(write(*store, batch(records, 8)), 8U);
    const fs::path dir = key_folder(*store, folder());
    EXPECT_FALSE(fs::exists(dir / "1.index"));
    EXPECT_EQ(fs::file_size(dir / "0.records"), (records + 8) * kRecordBytes);
  }
}

TEST_F(FeatureFault, UnpublishedRecordsAndIncompleteSlotAreOverwritten) {
  fill(5);
  std::ofstream(dir() / "0.records", std::ios::app | std::ios::binary) << std::string(500, 'x');
  std::ofstream(dir() / "0.index", std::ios::app | std::ios::binary) << std::string(17, 'x');
  const auto store = open();
  EXPECT_EQ(good_records(*store, batch(0, 10)), 5U);
  EXPECT_EQ(write(*store, batch(0, 10)), 5U);
  EXPECT_EQ(good_records(*store, batch(0, 10)), 10U);
  EXPECT_EQ(fs::file_size(dir() / "0.index"), 10 * kSlotBytes);
  EXPECT_EQ(fs::file_size(dir() / "0.records"), 10 * kRecordBytes);
}

TEST_F(FeatureFault, FullDiskEndsFillingButNotReading) {
  const auto store = open();
  {
    const WriteLimit limit(12 * kRecordBytes + 50);
    EXPECT_EQ(write(*store, batch(0, 8)), 8U);
    EXPECT_EQ(write(*store, batch(8, 8)), 0U);
    EXPECT_EQ(write(*store, batch(16, 8)), 0U);
    EXPECT_EQ(good_records(*store, batch(0, 24)), 8U);
  }
  EXPECT_THAT(store->filling_ended(),
              AllOf(StartsWith("cannot write features to '"), HasSubstr("File too large")));
  EXPECT_EQ(fs::file_size(dir() / "0.records"), 8 * kRecordBytes);
  const auto later = open();
  EXPECT_EQ(write(*later, batch(0, 24)), 16U);
}

TEST_F(FeatureFault, FullDiskForManifestEndsFilling) {
  const WriteLimit limit(0);
  const auto store = open();
  EXPECT_EQ(write(*store, batch(0, 3)), 0U);
  EXPECT_THAT(store->filling_ended(), StartsWith("cannot write"));
}

TEST_F(FeatureFault, FolderWithoutWritePermissionIsReadButNotFilled) {
  fill(5);
  for (const char* file : {"manifest.json", "0.index", "0.records"})
    fs::permissions(dir() / file, fs::perms(0444));
  for (const fs::path& each : {temporary_.path(), temporary_.path() / "made", folder(), dir()})
    fs::permissions(each, fs::perms(0555));
  fs::permissions(folder() / ".lock", fs::perms(0444));
  const Unprivileged user;
  const auto store = open();
  EXPECT_EQ(good_records(*store, batch(0, 10)), 5U);
  EXPECT_EQ(write(*store, batch(0, 10)), 0U);
  EXPECT_THAT(store->filling_ended(), HasSubstr("Permission denied"));
  const auto other = open(R"({"weights": 2})");
  EXPECT_EQ(write(*other, batch(0, 10)), 0U);
  EXPECT_THAT(other->filling_ended(), HasSubstr("Permission denied"));
}

TEST_F(FeatureFault, FolderThatIsFileIsRefused) {
  const fs::path file = temporary_.path() / "file";
  write_file_atomically(file, "x");
  EXPECT_THAT(thrown_by([&] { FeatureStore(file, "1", kFields); }),
              AllOf(StartsWith("Refused: "), HasSubstr("not a folder")));
  FeatureStore below(file / "features", "1", kFields);
  EXPECT_THAT(below.filling_ended(), StartsWith("cannot create '"));
  EXPECT_EQ(write(below, batch(0, 1)), 0U);
}

TEST_F(FeatureFault, SymbolicLinksInFolderAreNotFollowed) {
  const fs::path other = temporary_.path() / "other";
  for (const char* name : {"0.index", "0.records", "manifest.json"}) {
    fill(3);
    write_file_atomically(other, "mine");
    fs::remove(dir() / name);
    fs::create_symlink(other, dir() / name);
    if (std::string(name) == "manifest.json") {
      EXPECT_THAT(thrown_by([&] { open(); }), StartsWith("Refused: "));
    } else {
      const auto store = open();
      EXPECT_EQ(write(*store, batch(0, 5)), 0U) << name;
      EXPECT_THAT(store->filling_ended(), StartsWith("cannot write features to '")) << name;
    }
    EXPECT_EQ(read_text(other), "mine") << name;
    fs::remove(dir() / name);
  }
}

TEST_F(FeatureFault, LinkedKeyFolderIsRefusedAndLinkedUserFolderIsUsed) {
  fill(3);
  const fs::path moved = temporary_.path() / "moved";
  fs::rename(dir(), moved);
  fs::create_directory_symlink(moved, dir());
  EXPECT_THAT(thrown_by([&] { open(); }),
              AllOf(StartsWith("Refused: "), HasSubstr("symbolic link")));
  fs::remove(dir());
  fs::rename(moved, dir());
  const fs::path link = temporary_.path() / "link";
  fs::create_directory_symlink(folder(), link);
  FeatureStore store(link, R"({"weights": 1})", kFields);
  EXPECT_EQ(good_records(store, batch(0, 3)), 3U);
}

TEST_F(FeatureFault, OtherFormatAndDamagedManifestAreRefusedWithRemedy) {
  fill(3);
  const std::string good = read_text(dir() / "manifest.json");
  const std::string version = "\"slipstream_features\": 1";
  for (const char* other : {"0", "2", "\"new\""}) {
    std::string text = good;
    text.replace(text.find(version), version.size(),
                 std::string("\"slipstream_features\": ") + other);
    write_file_atomically(dir() / "manifest.json", text);
    EXPECT_THAT(thrown_by([&] { open(); }),
                AllOf(StartsWith("Refused: "), HasSubstr("slipstream features prune"),
                      HasSubstr("--key " + dir().filename().string())));
  }
  for (const std::string& text : {std::string(), good.substr(0, 40), std::string("[1]")}) {
    write_file_atomically(dir() / "manifest.json", text);
    EXPECT_THAT(thrown_by([&] { open(); }), StartsWith("Refused: ")) << text;
  }
  write_file_atomically(dir() / "manifest.json", good);
  EXPECT_EQ(good_records(*open(), batch(0, 3)), 3U);
}

TEST_F(FeatureFault, RemovedFolderEndsFilling) {
  const auto store = open();
  write(*store, batch(0, 3));
  for (const char* file : {"manifest.json", "0.index", "0.records"}) fs::remove(dir() / file);
  fs::remove(dir());
  fs::remove(folder() / ".lock");
  fs::remove(folder());
  EXPECT_EQ(write(*store, batch(3, 3)), 0U);
  EXPECT_THAT(store->filling_ended(), HasSubstr("No such file or directory"));
  EXPECT_EQ(good_records(*store, batch(0, 3)), 3U);
}

}  // namespace
}  // namespace slipstream
