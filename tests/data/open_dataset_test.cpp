#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "slipstream/datasets.h"
#include "slipstream/error.h"
#include "slipstream/make_data.h"
#include "support/temporary_folder.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OpenDatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    MakeDataOptions options;
    options.samples = 3;
    options.sizes = {8};
    make_segmentation_data(folder_.path(), options);
  }

  std::string refusal(const fs::path& path) const {
    try {
      open_dataset(path);
    } catch (const Refused& refused) {
      return refused.what();
    }
    return "";
  }

  static void touch(const fs::path& path) { std::ofstream(path).put('x'); }

  TemporaryFolder folder_;
};

TEST_F(OpenDatasetTest, TellsFoldersByWhatTheyHold) {
  EXPECT_EQ(open_dataset(folder_.path())->fields()[1].kind, FieldKind::mask);
  fs::remove(folder_.path() / "masks" / "000000.png");
  fs::rename(folder_.path() / "masks", folder_.path() / "more");
  const auto classes = open_dataset(folder_.path());
  EXPECT_EQ(classes->size(), 5U);
  EXPECT_EQ(classes->fields()[1].classes, 2);
}

TEST_F(OpenDatasetTest, ShardsBesideFoldersAreRefusedUnlessTheyAreHidden) {
  fs::rename(folder_.path() / "masks", folder_.path() / "more");
  touch(folder_.path() / "._x.tar");
  EXPECT_EQ(open_dataset(folder_.path())->size(), 6U);
  touch(folder_.path() / "x.TAR");
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("not clear which are the data"));
}

TEST_F(OpenDatasetTest, RefusesWhatIsNoDataSet) {
  touch(folder_.path() / "file.txt");
  EXPECT_THAT(refusal(folder_.path() / "file.txt"), HasSubstr("is no data set"));
  EXPECT_THAT(refusal(folder_.path() / "none"), HasSubstr("no file or folder"));
}

}  // namespace
}  // namespace slipstream
