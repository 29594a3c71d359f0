#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "support/write_limit.h"
#include "tools/make_data.h"

namespace slipstream {
namespace {

TEST(MakeDataOnFullDisk, ThrowsFileNameAndLeavesNoPartialFile) {
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
