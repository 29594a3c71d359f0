#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "slipstream/codecs/image.h"
#include "support/image_records.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

class ReadFile : public testing::Test {
 protected:
  std::string read_error(const std::filesystem::path& path) {
    return thrown_by([&] { read_file(path, out_); });
  }
  TemporaryFolder folder_;
  HostArray out_;
};

TEST_F(ReadFile, ReturnsEveryByte) {
  const Levels bytes = {0, 255, '\n', '\r', 0, 26};
  const auto path = folder_.path() / "odd name \n.jpg";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  read_file(path, out_);
  EXPECT_EQ(copy_levels(out_), bytes);
  EXPECT_EQ(out_.view().shape, Shape({6}));
}

TEST_F(ReadFile, EmptyFileGivesZeroBytes) {
  std::ofstream(folder_.path() / "empty");
  read_file(folder_.path() / "empty", out_);
  EXPECT_EQ(out_.view().bytes(), 0u);
}

TEST_F(ReadFile, MissingFileIsNamedInTheError) {
  EXPECT_THAT(read_error(folder_.path() / "gone.jpg"),
              testing::AllOf(HasSubstr("Error: cannot open '"), HasSubstr("gone.jpg"),
                             HasSubstr("No such file or directory")));
}

TEST_F(ReadFile, FolderOrPipeThrows) {
  EXPECT_THAT(read_error(folder_.path()), HasSubstr("Is a directory"));
  ASSERT_EQ(::mkfifo((folder_.path() / "pipe.jpg").c_str(), 0600), 0);
  EXPECT_THAT(read_error(folder_.path() / "pipe.jpg"), HasSubstr("not a regular file"));
}

TEST_F(ReadFile, TooLargeFileIsNamedInTheError) {
  const auto path = folder_.path() / "sparse.jpg";
  std::ofstream(path) << "x";
  std::filesystem::resize_file(path, (std::uintmax_t{1} << 30) + 1);
  EXPECT_THAT(read_error(path), testing::AllOf(HasSubstr("Error: '"), HasSubstr("sparse.jpg"),
                                               HasSubstr("1073741825 bytes"),
                                               HasSubstr("up to 1073741824 bytes (1 GiB)")));
}

}  // namespace
}  // namespace slipstream
