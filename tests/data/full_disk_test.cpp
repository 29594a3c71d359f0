#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "slipstream/make_data.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

/// As on a disk with `bytes` left, every longer write fails.
class WriteLimit {
 public:
  explicit WriteLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const ::rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~WriteLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  WriteLimit(const WriteLimit&) = delete;
  WriteLimit& operator=(const WriteLimit&) = delete;

 private:
  void (*handler_)(int);
  ::rlimit before_{};
};

TEST(MakeDataOnAFullDisk, IsAnErrorThatNamesTheFileAndLeavesNoPartOfIt) {
  const TemporaryFolder folder;
  MakeDataOptions options;
  options.samples = 1;
  std::string error;
  {
    const WriteLimit limit(2000);
    error = thrown_by([&] { make_segmentation_data(folder.path(), options); });
  }
  EXPECT_THAT(error, testing::StartsWith("Error: cannot write"));
  EXPECT_THAT(error, testing::HasSubstr("images/000000.jpg"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "images"));
}

}  // namespace
}  // namespace slipstream
