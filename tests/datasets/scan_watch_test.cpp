#include "datasets/scan_watch.h"

#include <gtest/gtest.h>

#include "support/folder_fixture.h"
#include "support/tar_writer.h"

namespace slipstream {
namespace {

struct Ended {};

class ScanWatchTest : public FolderTest {
 protected:
  int looks_at(const std::string& name) {
    int looks = 0;
    const ScanWatch watch([&] { ++looks; });
    open_dataset(path(name));
    return looks;
  }

  /// Whether each look may end the opening.
  bool may_end(const std::string& name) {
    const int all = looks_at(name);
    for (int last = 1; last <= all; ++last) {
      int looks = 0;
      const ScanWatch watch([&] {
        if (++looks == last) throw Ended();
      });
      try {
        open_dataset(path(name));
        return false;
      } catch (const Ended&) {
        if (looks != last) return false;
      }
    }
    return true;
  }
};

TEST_F(ScanWatchTest, LooksBetweenTheFilesOfFolders) {
  for (const char* name : {"classes/a/1.jpg", "classes/a/b/2.jpg", "classes/c/3.jpg",
                           "masked/images/1.jpg", "masked/masks/1.png", "masked/masks/notes"})
    write(name);
  EXPECT_GE(looks_at("classes"), 3 + 3 * 2);
  EXPECT_GE(looks_at("masked"), 3 * 2);
  EXPECT_TRUE(may_end("classes"));
  EXPECT_TRUE(may_end("masked"));
}

TEST_F(ScanWatchTest, LooksBetweenTheRowsOfLists) {
  write("rows.csv", "image,label\na.jpg,0\nb.jpg,1\nc.jpg,0\n");
  write("rows.jsonl", R"({"image": "a.jpg", "label": 0}
{"image": "b.jpg", "label": 1})");
  EXPECT_GE(looks_at("rows.csv"), 3);
  EXPECT_GE(looks_at("rows.jsonl"), 2);
  EXPECT_TRUE(may_end("rows.csv"));
  EXPECT_TRUE(may_end("rows.jsonl"));
}

TEST_F(ScanWatchTest, LooksBetweenTheSamplesOfAShardAndLeavesNoPartOfItsIndex) {
  TarWriter tar;
  for (const char* member : {"1.jpg", "2.jpg", "3.jpg"}) tar.add(member, "x");
  tar.end();
  tar.write(path("shard.tar"));
  int looks = 0;
  {
    const ScanWatch watch([&] {
      if (++looks == 3) throw Ended();
    });
    EXPECT_THROW(open_dataset(path("shard.tar")), Ended);
  }
  EXPECT_EQ(open_dataset(path("shard.tar"))->size(), 3U);
  EXPECT_EQ(looks, 3);
}

TEST_F(ScanWatchTest, TheOuterOneLooksAgainBehindTheInnerOne) {
  write("rows.csv", "image,label\na.jpg,0\n");
  int looks = 0;
  const ScanWatch watch([&] { ++looks; });
  EXPECT_GE(looks_at("rows.csv"), 1);
  EXPECT_EQ(looks, 0);
  open_dataset(path("rows.csv"));
  EXPECT_GE(looks, 1);
}

}  // namespace
}  // namespace slipstream
