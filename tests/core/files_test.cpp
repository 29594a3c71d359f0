#include "slipstream/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "slipstream/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FilesTest : public testing::Test {
 protected:
  FilesTest() {
    std::string name = (fs::temp_directory_path() / "slipstream-files-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Error("no temporary folder");
    folder_ = name;
  }
  ~FilesTest() override { fs::remove_all(folder_); }

  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  static std::string content(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  static std::string refusal(const fs::path& path) {
    try {
      check_writable(path);
    } catch (const Refused& refused) {
      return refused.what();
    }
    return "not refused";
  }

  static std::string failure(const fs::path& path) {
    try {
      write_file_atomically(path, "text");
    } catch (const Error& error) {
      return error.what();
    }
    return "no failure";
  }

  fs::path folder_;
};

TEST_F(FilesTest, ANewFileIsWrittenAndNothingElseStays) {
  const fs::path path = folder_ / "run.json";
  EXPECT_NO_THROW(check_writable(path));
  EXPECT_EQ(entries(), 0u);
  write_file_atomically(path, std::string_view("a\0b", 3));
  EXPECT_EQ(content(path), std::string("a\0b", 3));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FilesTest, AnExistingFileKeepsItsContentUntilItIsReplacedAndItsModeAfterwards) {
  const fs::path path = folder_ / "run.json";
  std::ofstream(path) << "old";
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  check_writable(path);
  EXPECT_EQ(content(path), "old");
  write_file_atomically(path, "new");
  EXPECT_EQ(content(path), "new");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0640));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FilesTest, ALinkStaysALink) {
  const fs::path target = folder_ / "target";
  std::ofstream(target) << "a longer old text";
  fs::create_symlink(target, folder_ / "link");
  check_writable(folder_ / "link");
  write_file_atomically(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(content(target), "new");
}

TEST_F(FilesTest, WhatCannotBeWrittenIsRefusedWithTheReason) {
  std::ofstream(folder_ / "file") << "old";
  EXPECT_THAT(refusal(""), HasSubstr("the name is empty"));
  EXPECT_THAT(refusal(folder_), HasSubstr("it is a folder; name a file in it"));
  EXPECT_THAT(refusal(folder_ / "missing" / "run.json"),
              testing::AllOf(HasSubstr("cannot write "), HasSubstr("run.json: there is no folder "),
                             HasSubstr("missing; make it first")));
  EXPECT_THAT(refusal(folder_ / "file" / "run.json"), HasSubstr("there is no folder"));
  EXPECT_THAT(refusal("/proc/slipstream.json"), HasSubstr("cannot write /proc/slipstream.json: "));
  EXPECT_EQ(content(folder_ / "file"), "old");
}

TEST_F(FilesTest, AFailedWriteNamesTheFileAndTheReason) {
  EXPECT_EQ(failure("/dev/full"), "cannot write /dev/full: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_THAT(failure(folder_ / "missing" / "run.json"), HasSubstr("No such file or directory"));
  fs::create_directory(folder_ / "folder");
  EXPECT_THAT(failure(folder_ / "folder"), HasSubstr("cannot write "));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FilesTest, ManyWritersLeaveOneWholeFile) {
  const fs::path path = folder_ / "file";
  std::vector<std::jthread> writers;
  for (const char letter : {'a', 'b', 'c', 'd'})
    writers.emplace_back([&path, letter] {
      for (int i = 0; i < 50; ++i) write_file_atomically(path, std::string(10'000, letter));
    });
  writers.clear();
  const std::string text = content(path);
  EXPECT_EQ(text, std::string(10'000, text.at(0)));
  EXPECT_EQ(entries(), 1u);
}

}  // namespace
}  // namespace slipstream
