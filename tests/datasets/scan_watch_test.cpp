#include "datasets/scan_watch.h"

#include <gtest/gtest.h>

#include "support/folder_fixture.h"
#include "support/tar_writer.h"

namespace slipstream {
namespace {

struct Ended {};

class ScanWatchTest : public FolderTest {
 protected:
  int count_polls(const std::string& name) {
    int polls = 0;
    const ScanWatch watch([&] { ++polls; });
    open_dataset(path(name));
    return polls;
  }

  /// Returns true if an exception from any poll ends the opening.
  bool every_poll_can_abort(const std::string& name) {
    const int all = count_polls(name);
    for (int last = 1; last <= all; ++last) {
      int polls = 0;
      const ScanWatch watch([&] {
        if (++polls == last) throw Ended();
      });
      try {
        open_dataset(path(name));
        return false;
      } catch (const Ended&) {
        if (polls != last) return false;
      }
    }
    return true;
  }
};

TEST_F(ScanWatchTest, PollsForEveryFileOfAFolder) {
  for (const char* name : {"classes/a/1.jpg", "classes/a/b/2.jpg", "classes/c/3.jpg",
                           "masked/images/1.jpg", "masked/masks/1.png", "masked/masks/notes"})
    write(name);
  EXPECT_GE(count_polls("classes"), 3 + 3 * 2);
  EXPECT_GE(count_polls("masked"), 3 * 2);
  EXPECT_TRUE(every_poll_can_abort("classes"));
  EXPECT_TRUE(every_poll_can_abort("masked"));
}

TEST_F(ScanWatchTest, PollsForEveryRowOfAList) {
  write("rows.csv", "image,label\na.jpg,0\nb.jpg,1\nc.jpg,0\n");
  write("rows.jsonl", R"({"image": "a.jpg", "label": 0}
{"image": "b.jpg", "label": 1})");
  EXPECT_GE(count_polls("rows.csv"), 3);
  EXPECT_GE(count_polls("rows.jsonl"), 2);
  EXPECT_TRUE(every_poll_can_abort("rows.csv"));
  EXPECT_TRUE(every_poll_can_abort("rows.jsonl"));
}

TEST_F(ScanWatchTest, AbortDuringShardScanLeavesNoPartialIndex) {
  TarWriter tar;
  for (const char* member : {"1.jpg", "2.jpg", "3.jpg"}) tar.add(member, "x");
  tar.end();
  tar.write(path("shard.tar"));
  int polls = 0;
  {
    const ScanWatch watch([&] {
      if (++polls == 3) throw Ended();
    });
    EXPECT_THROW(open_dataset(path("shard.tar")), Ended);
  }
  EXPECT_EQ(open_dataset(path("shard.tar"))->size(), 3U);
  EXPECT_EQ(polls, 3);
}

TEST_F(ScanWatchTest, OuterWatchPollsAgainAfterTheInnerEnds) {
  write("rows.csv", "image,label\na.jpg,0\n");
  int polls = 0;
  const ScanWatch watch([&] { ++polls; });
  EXPECT_GE(count_polls("rows.csv"), 1);
  EXPECT_EQ(polls, 0);
  open_dataset(path("rows.csv"));
  EXPECT_GE(polls, 1);
}

}  // namespace
}  // namespace slipstream
