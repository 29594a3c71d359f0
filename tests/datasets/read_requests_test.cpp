#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <string>

#include "datasets/cache_file.h"
#include "datasets/read_chunk.h"
#include "datasets/stamped_file.h"
#include "slipstream/codecs/image.h"
#include "support/temporary_folder.h"

namespace {

/// Sizes of the read requests of this thread since the last clear().
thread_local std::vector<std::size_t> requests;

}  // namespace

// Replace the C library's functions: all code that requests bytes of a file is linked to these.
extern "C" ssize_t read(int fd, void* to, std::size_t bytes) {
  requests.push_back(bytes);
  return ::syscall(SYS_read, fd, to, bytes);
}
extern "C" ssize_t pread(int fd, void* to, std::size_t bytes, off_t offset) {
  requests.push_back(bytes);
  return ::syscall(SYS_pread64, fd, to, bytes, offset);
}

namespace slipstream {
namespace {

using testing::ElementsAre;

class ReadRequests : public testing::Test {
 protected:
  ReadRequests() : path_(folder_.path() / "file") {
    std::iota(content_.begin(), content_.end(), '\0');
    std::ofstream(path_, std::ios::binary) << content_;
  }

  std::vector<std::size_t> read_file_requests() {
    HostArray out;
    requests.clear();
    read_file(path_, out);
    EXPECT_EQ(std::string(out.view().as<char>(), out.view().bytes()), content_);
    return requests;
  }

  std::vector<std::size_t> stamped_file_requests() {
    const StampedFile file(path_);
    std::string got(content_.size() - 3, ' ');
    requests.clear();
    file.read(3, std::as_writable_bytes(std::span(got)));
    EXPECT_EQ(got, content_.substr(3));
    return requests;
  }

  std::vector<std::size_t> cache_file_requests() {
    CacheFile file;
    EXPECT_EQ(file.open(path_, false), 0);
    std::string got(content_.size() - 3, ' ');
    requests.clear();
    EXPECT_TRUE(file.read(3, std::as_writable_bytes(std::span(got))));
    EXPECT_EQ(got, content_.substr(3));
    return requests;
  }

  TemporaryFolder folder_;
  std::filesystem::path path_;
  std::string content_ = std::string(100, ' ');
};

TEST_F(ReadRequests, WithoutChunkSizeReadEverythingAtOnce) {
  EXPECT_THAT(read_file_requests(), ElementsAre(100));
  EXPECT_THAT(stamped_file_requests(), ElementsAre(97));
  EXPECT_THAT(cache_file_requests(), ElementsAre(97));
  const ReadChunk none(0);
  EXPECT_THAT(read_file_requests(), ElementsAre(100));
}

TEST_F(ReadRequests, AreLimitedToTheChunkSize) {
  const ReadChunk chunk(40);
  EXPECT_THAT(read_file_requests(), ElementsAre(40, 40, 20));
  EXPECT_THAT(stamped_file_requests(), ElementsAre(40, 40, 17));
  EXPECT_THAT(cache_file_requests(), ElementsAre(40, 40, 17));
}

TEST_F(ReadRequests, ChunkSizeIsRestoredWhenScopeEnds) {
  const ReadChunk outer(50);
  {
    const ReadChunk inner(100);
    EXPECT_THAT(read_file_requests(), ElementsAre(100));
  }
  EXPECT_THAT(read_file_requests(), ElementsAre(50, 50));
}

}  // namespace
}  // namespace slipstream
