#include "engine/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <stdexcept>

#include "slipstream/core/error.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string read_test_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& each : fs::directory_iterator(folder))
    names.insert(each.path().filename().string());
  return names;
}

std::vector<std::uint64_t> steps_in(const fs::path& folder) {
  std::vector<std::uint64_t> steps;
  for (const FoundCheckpoint& found : checkpoints_in(folder)) steps.push_back(found.step);
  return steps;
}

class CheckpointFolderTest : public testing::Test {
 protected:
  fs::path path() const { return temporary_.path() / "a" / "run"; }
  fs::path step(std::uint64_t step) const {
    return path() / ("step-0000000" + std::to_string(step));
  }
  static void add(CheckpointFolder& folder, std::uint64_t step, const std::string& text = "x") {
    folder.add(step, [&](const fs::path& into) { std::ofstream(into / "file") << text; });
  }

  TemporaryFolder temporary_;
};

TEST_F(CheckpointFolderTest, AddCreatesStepFolderWithWrittenFile) {
  CheckpointFolder folder(path());
  EXPECT_EQ(folder.path(), path());
  EXPECT_EQ(folder.add(7, [](const fs::path& into) { std::ofstream(into / "file") << "seven"; }),
            step(7));
  EXPECT_EQ(read_test_file(step(7) / "file"), "seven");
  EXPECT_THAT(names_in(path()), ElementsAre(".lock", "step-00000007"));
}

TEST_F(CheckpointFolderTest, StepsAreListedNewestFirstAndOtherNamesIgnored) {
  CheckpointFolder folder(path());
  for (const std::uint64_t step : {9ULL, 10ULL, 8ULL, 123456789012ULL}) add(folder, step);
  EXPECT_THAT(steps_in(path()), ElementsAre(123456789012, 10, 9, 8));
  for (const char* other : {"step-1", "step-0000000a", "step-", "step-000000011", "step-00000011~",
                            "step--0000001", "other"})
    fs::create_directory(path() / other);
  EXPECT_THAT(steps_in(path()), ElementsAre(123456789012, 10, 9, 8));
  EXPECT_THAT(checkpoints_in(path() / "nowhere"), IsEmpty());
}

TEST_F(CheckpointFolderTest, NonFolderStepPathIsNotListedAndIsReplacedByAdd) {
  CheckpointFolder folder(path());
  add(folder, 1);
  std::ofstream(step(2)) << "a file";
  fs::create_directory_symlink("nowhere", step(3));
  EXPECT_THAT(steps_in(path()), ElementsAre(1));
  add(folder, 2, "two");
  EXPECT_EQ(read_test_file(step(2) / "file"), "two");
}

TEST_F(CheckpointFolderTest, AddReplacesCheckpointOfSameStep) {
  CheckpointFolder folder(path());
  add(folder, 1, "old");
  std::ofstream(step(1) / "more") << "old";
  add(folder, 1, "new");
  EXPECT_EQ(read_test_file(step(1) / "file"), "new");
  EXPECT_THAT(names_in(step(1)), ElementsAre("file"));
  EXPECT_THAT(names_in(path()), ElementsAre(".lock", "step-00000001"));
}

TEST_F(CheckpointFolderTest, ThrowingWriterLeavesFolderUnchanged) {
  CheckpointFolder folder(path());
  add(folder, 1, "old");
  for (const std::uint64_t step : {1ULL, 2ULL})
    EXPECT_EQ(thrown_by([&] {
                folder.add(step, [](const fs::path& into) {
                  std::ofstream(into / "file") << "half";
                  throw std::runtime_error("no more");
                });
              }),
              "other: no more");
  EXPECT_EQ(read_test_file(step(1) / "file"), "old");
  EXPECT_THAT(names_in(path()), ElementsAre(".lock", "step-00000001"));
}

TEST_F(CheckpointFolderTest, KeepRemovesAllButLatestAndBest) {
  CheckpointFolder folder(path());
  for (std::uint64_t step = 1; step <= 6; ++step) add(folder, step);
  folder.keep(9, 100);
  EXPECT_EQ(steps_in(path()).size(), 6U);
  folder.set_best(2);
  folder.keep(2, 100);
  EXPECT_THAT(steps_in(path()), ElementsAre(6, 5, 2));
  EXPECT_EQ(fs::read_symlink(path() / "best"), "step-00000002");
  folder.set_best(6);
  folder.keep(0, 100);
  EXPECT_THAT(names_in(path()), ElementsAre(".lock", "best", "step-00000006"));
  EXPECT_EQ(read_test_file(path() / "best" / "file"), "x");
}

TEST_F(CheckpointFolderTest, SetLastLinksLastToTheStep) {
  CheckpointFolder folder(path());
  for (std::uint64_t each = 1; each <= 2; ++each) {
    add(folder, each);
    folder.set_last(each);
    EXPECT_EQ(fs::read_symlink(path() / "last"), step(each).filename());
  }
  EXPECT_EQ(read_test_file(path() / "last" / "file"), "x");
  EXPECT_THAT(names_in(path()), ElementsAre(".lock", "last", "step-00000001", "step-00000002"));
}

TEST_F(CheckpointFolderTest, FolderNamedBestOrLastIsRefusedAndKept) {
  for (const char* name : {"best", "last"}) {
    {
      CheckpointFolder folder(path());
      add(folder, 1);
      fs::create_directory(path() / name);
      std::ofstream(path() / name / "file") << "a copy";
      if (std::string(name) == "best") {
        EXPECT_THROW(folder.set_best(1), Error);
      } else {
        EXPECT_THROW(folder.set_last(1), Error);
      }
      EXPECT_THAT(names_in(path()), ElementsAre(".lock", name, "step-00000001"));
    }
    EXPECT_THROW(CheckpointFolder folder(path()), Refused);
    EXPECT_EQ(read_test_file(path() / name / "file"), "a copy");
    fs::remove_all(path() / name);
  }
}

TEST_F(CheckpointFolderTest, SecondOwnerIsRefusedUntilFirstIsDestroyed) {
  {
    const CheckpointFolder folder(path());
    EXPECT_THAT(thrown_by([&] { CheckpointFolder second(path()); }),
                AllOf(StartsWith("Refused: another run stores its checkpoints in "),
                      HasSubstr(path().string())));
  }
  EXPECT_EQ(thrown_by([&] { CheckpointFolder second(path()); }), "nothing");
}

TEST_F(CheckpointFolderTest, RefusedOwnerRemovesNoUnfinishedCheckpoint) {
  CheckpointFolder folder(path());
  folder.add(1, [&](const fs::path& into) {
    std::ofstream(into / "file") << "one";
    EXPECT_THROW(CheckpointFolder second(path()), Refused);
  });
  EXPECT_EQ(read_test_file(step(1) / "file"), "one");
}

TEST_F(CheckpointFolderTest, ConstructorRemovesOnlyUnfinishedEntries) {
  fs::create_directories(path() / ".unfinished-step-00000003");
  std::ofstream(path() / ".unfinished-step-00000003" / ".slipstream-1-0.tmp") << "half";
  fs::create_directories(path() / ".unfinished-removed" / "deeper");
  fs::create_directory_symlink("step-00000001", path() / ".unfinished-best");
  fs::create_directories(step(1));
  std::ofstream(step(1) / "file") << "whole";
  std::ofstream(path() / "notes") << "mine";
  const CheckpointFolder folder(path());
  EXPECT_THAT(names_in(path()), ElementsAre(".lock", "notes", "step-00000001"));
  EXPECT_EQ(read_test_file(step(1) / "file"), "whole");
}

TEST_F(CheckpointFolderTest, AddRecreatesMovedFolderAndItsLock) {
  CheckpointFolder folder(path());
  add(folder, 1);
  fs::rename(path(), temporary_.path() / "moved");
  add(folder, 2);
  EXPECT_THAT(names_in(path()), ElementsAre(".lock", "step-00000002"));
  EXPECT_THROW(CheckpointFolder second(path()), Refused);
}

TEST_F(CheckpointFolderTest, FolderMovedDuringAddThrowsErrorAndNextAddSucceeds) {
  CheckpointFolder folder(path());
  EXPECT_THAT(thrown_by([&] {
                folder.add(1, [&](const fs::path& into) {
                  std::ofstream(into / "file") << "one";
                  fs::rename(path(), temporary_.path() / "moved");
                });
              }),
              StartsWith("Error: cannot "));
  add(folder, 2);
  EXPECT_THAT(steps_in(path()), ElementsAre(2));
}

TEST_F(CheckpointFolderTest, AddToFolderRecreatedByAnotherRunIsRefused) {
  CheckpointFolder folder(path());
  fs::rename(path(), temporary_.path() / "moved");
  CheckpointFolder other(path());
  EXPECT_THAT(thrown_by([&] { add(folder, 1); }), HasSubstr("another run stores its checkpoints"));
  EXPECT_THAT(steps_in(path()), IsEmpty());
}

TEST_F(CheckpointFolderTest, PathThatCannotBeCreatedIsRefused) {
  std::ofstream(temporary_.path() / "file") << "a file";
  for (const fs::path& place : {temporary_.path() / "file", temporary_.path() / "file" / "run"})
    EXPECT_THAT(thrown_by([&] { CheckpointFolder folder(place); }),
                StartsWith("Refused: cannot make the folder " + place.string()));
}

}  // namespace
}  // namespace slipstream
