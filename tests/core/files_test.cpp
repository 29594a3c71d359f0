#include "core/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "slipstream/core/error.h"
#include "support/thrown.h"
#include "support/write_limit.h"

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

TEST_F(FilesTest, NewFileIsWrittenWithoutTemporaryFilesLeft) {
  const fs::path path = folder_ / "run.json";
  EXPECT_NO_THROW(check_writable(path));
  EXPECT_EQ(entries(), 0u);
  write_file_atomically(path, std::string_view("a\0b", 3));
  EXPECT_EQ(content(path), std::string("a\0b", 3));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FilesTest, OverwriteReplacesContentAndKeepsMode) {
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

TEST_F(FilesTest, WriteThroughSymlinkKeepsTheLink) {
  const fs::path target = folder_ / "target";
  std::ofstream(target) << "a longer old text";
  fs::create_symlink(target, folder_ / "link");
  check_writable(folder_ / "link");
  write_file_atomically(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(content(target), "new");
}

TEST_F(FilesTest, FailedWriteThroughSymlinkKeepsTargetContent) {
  fs::create_directory(folder_ / "far");
  const fs::path target = folder_ / "far" / "target", link = folder_ / "link";
  std::ofstream(target) << "old text";
  fs::create_symlink("far/target", folder_ / "between");
  fs::create_symlink("between", link);
  {
    const WriteLimit limit(4);
    EXPECT_THAT(thrown_by([&] { write_file_atomically(link, "a new text"); }),
                "Error: cannot write " + link.string() + ": File too large");
  }
  EXPECT_EQ(content(target), "old text");
  write_file_atomically(link, "a new text");
  EXPECT_EQ(content(target), "a new text");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::is_symlink(folder_ / "between"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "far"), fs::directory_iterator()), 1);
}

TEST_F(FilesTest, LinkToOpenDescriptorWritesToTheOpenFile) {
  const int file = ::open((folder_ / "open").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  const fs::path link = folder_ / "link";
  fs::create_symlink("/proc/self/fd/" + std::to_string(file), link);
  check_writable(link);
  write_file_atomically(link, "text");
  char read[4] = {};
  EXPECT_EQ(::pread(file, read, sizeof read, 0), 4);
  EXPECT_EQ(std::string(read, sizeof read), "text");
  ::close(file);
}

TEST_F(FilesTest, UnwritablePathIsRefusedWithReason) {
  std::ofstream(folder_ / "file") << "old";
  EXPECT_THAT(refusal(""), HasSubstr("the name is empty"));
  EXPECT_THAT(refusal(folder_), HasSubstr("it is a folder; name a file in it"));
  EXPECT_THAT(refusal(folder_ / "missing" / "run.json"),
              testing::AllOf(HasSubstr("cannot write "), HasSubstr("run.json: there is no folder "),
                             HasSubstr("missing; make it first")));
  EXPECT_THAT(refusal(folder_ / "file" / "run.json"), HasSubstr("there is no folder"));
  EXPECT_THAT(refusal(folder_ / std::string(300, 'x')), HasSubstr("File name too long"));
  EXPECT_THAT(refusal("/proc/slipstream.json"), HasSubstr("cannot write /proc/slipstream.json: "));
  EXPECT_EQ(content(folder_ / "file"), "old");
}

TEST_F(FilesTest, SymlinkIsWritableOnlyIfItsTargetIs) {
  fs::create_symlink(folder_ / "missing" / "x", folder_ / "lost");
  EXPECT_THAT(refusal(folder_ / "lost"), testing::AllOf(HasSubstr("lost: it is a link to "),
                                                        HasSubstr("there is no folder ")));
  for (const auto& [link, target] : {std::pair("itself", "itself"), {"a", "b"}, {"b", "a"}})
    fs::create_symlink(target, folder_ / link);
  for (const char* loop : {"itself", "a"}) {
    EXPECT_THAT(refusal(folder_ / loop), HasSubstr("symbolic links"));
    EXPECT_THAT(failure(folder_ / loop), HasSubstr("symbolic links"));
  }
  fs::create_symlink("new", folder_ / "relative");
  EXPECT_EQ(refusal(folder_ / "relative"), "not refused");
  write_file_atomically(folder_ / "relative", "text");
  EXPECT_EQ(content(folder_ / "new"), "text");
}

TEST_F(FilesTest, PipeWithoutReaderIsRefused) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(failure(pipe), HasSubstr("pipe: no process reads it"));
  try {
    const OutputFile output(pipe);
    FAIL();
  } catch (const Refused& refused) {
    EXPECT_THAT(refused.what(), HasSubstr("pipe: no process reads it"));
  }
}

TEST_F(FilesTest, PipeReaderReceivesCompleteOutput) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  OutputFile output(pipe);
  char nothing = 0;
  // nonblocking and empty; at the end of the file it would be 0
  EXPECT_EQ(::read(reader, &nothing, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  const std::string text(1 << 20, 'x');  // more than a pipe can hold
  std::string got;
  std::jthread reading([&] {
    std::ifstream file("/proc/self/fd/" + std::to_string(reader));
    got.assign(std::istreambuf_iterator<char>(file), {});
  });
  output.write(text);
  reading.join();
  EXPECT_EQ(got, text);
  ::close(reader);
}

TEST_F(FilesTest, OutputFileIsCreatedByWriteUnlessPathIsEmpty) {
  OutputFile(fs::path()).write("text");
  EXPECT_EQ(entries(), 0u);
  OutputFile output(folder_ / "run.json");
  EXPECT_EQ(entries(), 0u);
  output.write("text");
  EXPECT_EQ(content(folder_ / "run.json"), "text");
}

TEST_F(FilesTest, LineFileReplacesOldContentAndFlushesEveryLine) {
  const fs::path path = folder_ / "lines";
  std::ofstream(path) << "old";
  LineFile lines(path);
  EXPECT_EQ(content(path), "old");
  lines.write("one");
  EXPECT_EQ(content(path), "one\n");
  lines.write("two");
  EXPECT_EQ(content(path), "one\ntwo\n");
  fs::resize_file(path, 0);
  lines.write("three");
  EXPECT_EQ(content(path), "three\n");
  LineFile("").write("nowhere");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FilesTest, PartiallyWrittenLineIsRemoved) {
  const fs::path path = folder_ / "lines";
  LineFile lines(path);
  lines.write("one");
  const WriteLimit limit(10);
  EXPECT_THAT(thrown_by([&] { lines.write("more than there is room for"); }),
              "Error: cannot write " + path.string() + ": File too large");
  EXPECT_EQ(content(path), "one\n");
  EXPECT_THAT(thrown_by([] { LineFile("/dev/full").write("one"); }), HasSubstr("No space left"));
}

TEST_F(FilesTest, AppendWritesAllOrNothing) {
  const fs::path path = folder_ / "records";
  EXPECT_FALSE(append_to_file(path, "one"));
  EXPECT_EQ(entries(), 0u);
  write_file_atomically(path, "one,");
  EXPECT_TRUE(append_to_file(path, "two,"));
  EXPECT_TRUE(append_to_file(path, ""));
  EXPECT_EQ(content(path), "one,two,");
  {
    const WriteLimit limit(10);
    EXPECT_EQ(thrown_by([&] { append_to_file(path, "three,"); }),
              "Error: cannot write " + path.string() + ": File too large");
  }
  EXPECT_EQ(content(path), "one,two,");
  EXPECT_THAT(thrown_by([] { append_to_file("/dev/full", "one"); }), HasSubstr("No space left"));
  EXPECT_THAT(thrown_by([&] { append_to_file(folder_, "one"); }), HasSubstr("Is a directory"));
}

TEST_F(FilesTest, FullPipeThrowsInsteadOfBlocking) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(thrown_by([&] { LineFile lines(pipe); }), HasSubstr("Refused: "));
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  LineFile lines(pipe);
  EXPECT_THAT(thrown_by([&] {
                for (int i = 0; i < 1000; ++i) lines.write(std::string(4000, 'x'));
              }),
              HasSubstr("Error: cannot write " + pipe.string() +
                        ": the pipe is full because its reader is too slow"));
  ::close(reader);
}

TEST_F(FilesTest, IsSameFileFollowsLinksAndExcludesDevices) {
  EXPECT_TRUE(is_same_file(folder_ / "new", folder_ / "." / "new"));
  EXPECT_FALSE(is_same_file(folder_ / "new", folder_ / "other"));
  std::ofstream(folder_ / "file") << "old";
  fs::create_symlink("file", folder_ / "link");
  EXPECT_TRUE(is_same_file(folder_ / "link", folder_ / "file"));
  fs::create_symlink("new", folder_ / "link to nothing");
  EXPECT_TRUE(is_same_file(folder_ / "link to nothing", folder_ / "new"));
  fs::create_hard_link(folder_ / "file", folder_ / "hard link");
  EXPECT_TRUE(is_same_file(folder_ / "hard link", folder_ / "file"));
  fs::create_directory_symlink(folder_, folder_ / "again");
  EXPECT_TRUE(is_same_file(folder_ / "again" / "file", folder_ / "file"));
  EXPECT_FALSE(is_same_file("/dev/null", "/dev/null"));
}

TEST_F(FilesTest, FailedWriteReportsFileAndReason) {
  EXPECT_EQ(failure("/dev/full"), "cannot write /dev/full: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_THAT(failure(folder_ / "missing" / "run.json"), HasSubstr("No such file or directory"));
  fs::create_directory(folder_ / "folder");
  EXPECT_THAT(failure(folder_ / "folder"), HasSubstr("cannot write "));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FilesTest, ConcurrentWritersLeaveOneCompleteFile) {
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

TEST_F(FilesTest, ReadTextRefusesPipesFoldersAndLargeFiles) {
  const fs::path path = folder_ / "text";
  write_file_atomically(path, "0123456789");
  EXPECT_EQ(read_text(path), "0123456789");
  EXPECT_EQ(read_text(path, 10), "0123456789");
  EXPECT_THAT(thrown_by([&] { read_text(path, 9); }), HasSubstr("more than 9 bytes"));
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const fs::path& endless : {pipe, fs::path("/dev/zero")})
    EXPECT_THAT(thrown_by([&] { read_text(endless); }),
                HasSubstr("it is a pipe or a device; write it to a file first"));
  EXPECT_THAT(thrown_by([&] { read_text(folder_); }), HasSubstr("it is a folder"));
}

}  // namespace
}  // namespace slipstream
