#include "features/feature_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/files.h"
#include "features/feature_store_fixture.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class FeatureFolder : public FeatureStoreTest {
 protected:
  /// Creates a key with `records` records that was last used at `time`. Returns its name.
  std::string make_key(const std::string& key, std::size_t records, std::time_t time) const {
    const auto store = open(key);
    write(*store, batch(0, records));
    store->close();
    const std::string name = store->manifest().folder_name();
    const ::timespec times[2] = {{time, 0}, {time, 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, (folder() / name / "manifest.json").c_str(), times, 0), 0);
    return name;
  }
  static std::vector<std::string> names(const std::vector<FeatureKey>& keys) {
    std::vector<std::string> all;
    for (const FeatureKey& key : keys) all.push_back(key.name);
    return all;
  }
};

TEST_F(FeatureFolder, ListsKeysByLastUse) {
  const std::string old = make_key(R"({"weights": "a"})", 10, 1'000'000);
  const std::string recent = make_key(R"({"weights": "b"})", 3, 2'000'000);
  fs::create_directory(folder() / "others");
  const std::vector<FeatureKey> keys = list_feature_keys(folder());
  EXPECT_THAT(names(keys), ElementsAre(recent, old));
  EXPECT_EQ(keys[0].records, 3U);
  EXPECT_EQ(keys[0].last_used, 2'000'000);
  EXPECT_EQ(keys[0].bytes, bytes_on_disk(folder() / recent));
  ASSERT_TRUE(keys[0].manifest);
  EXPECT_EQ(keys[0].manifest->key, R"({"weights":"b"})");
  EXPECT_EQ(keys[0].problem, "");
}

TEST_F(FeatureFolder, OpeningAndClosingSetTheTimeOfTheLastUse) {
  make_key("1", 1, 1'000'000);
  const std::time_t before = std::time(nullptr) - 2;
  open("1");
  EXPECT_GE(list_feature_keys(folder())[0].last_used, before);
}

TEST_F(FeatureFolder, ListsUnreadableKeysWithTheProblem) {
  const std::string name = make_key("1", 1, 1'000'000);
  const std::string copied = "0123456789abcdef";
  fs::create_directory(folder() / copied);
  fs::copy_file(folder() / name / "manifest.json", folder() / copied / "manifest.json");
  write_file_atomically(folder() / name / "manifest.json", R"({"slipstream_features": 9})");
  const std::vector<FeatureKey> keys = list_feature_keys(folder());
  ASSERT_THAT(keys, SizeIs(2));
  for (const FeatureKey& key : keys)
    EXPECT_THAT(key.problem, HasSubstr(key.name == name ? "version 9" : name));
}

TEST_F(FeatureFolder, FolderThatCannotBeReadIsRefused) {
  EXPECT_THAT(thrown_by([&] { list_feature_keys(folder() / "none"); }),
              AllOf(StartsWith("Refused: "), HasSubstr("No such file")));
}

TEST_F(FeatureFolder, FindsKeyByStartOfItsName) {
  const std::string one = make_key("1", 1, 1'000'000);
  EXPECT_EQ(find_feature_key(folder(), "").name, one);
  const std::string two = make_key("2", 1, 2'000'000);
  EXPECT_EQ(find_feature_key(folder(), one.substr(0, 6)).name, one);
  EXPECT_THAT(thrown_by([&] { find_feature_key(folder(), ""); }),
              AllOf(HasSubstr(one), HasSubstr(two), HasSubstr("--key")));
  EXPECT_THAT(thrown_by([&] { find_feature_key(folder(), "none"); }),
              AllOf(StartsWith("Refused: "), HasSubstr("'none'"), HasSubstr(two)));
}

TEST_F(FeatureFolder, PrunesByAge) {
  const std::string old = make_key("1", 1, 1'000'000);
  const std::string recent = make_key("2", 1, 2'000'000);
  const PrunedFeatures pruned = prune_features(folder(), {.last_used_before = 1'500'000});
  EXPECT_THAT(names(pruned.removed), ElementsAre(old));
  EXPECT_FALSE(fs::exists(folder() / old));
  EXPECT_EQ(pruned.bytes_left, bytes_on_disk(folder() / recent));
}

TEST_F(FeatureFolder, PrunesByName) {
  const std::string one = make_key("1", 1, 1'000'000);
  make_key("2", 1, 2'000'000);
  EXPECT_THAT(names(prune_features(folder(), {.name = one.substr(0, 8)}).removed),
              ElementsAre(one));
  EXPECT_THAT(thrown_by([&] { prune_features(folder(), {.name = one}); }), StartsWith("Refused: "));
}

TEST_F(FeatureFolder, PrunesLeastRecentlyUsedToSize) {
  const std::string first = make_key("1", 10, 1'000'000);
  const std::string second = make_key("2", 1000, 2'000'000);
  const std::string third = make_key("3", 10, 3'000'000);
  const std::uint64_t third_bytes = bytes_on_disk(folder() / third);
  EXPECT_THAT(prune_features(folder(), {.to_bytes = 1 << 30}).removed, IsEmpty());
  // The first key would fit, but it was used less recently than the second, which does not.
  const PrunedFeatures pruned = prune_features(folder(), {.to_bytes = third_bytes + 5000});
  EXPECT_THAT(names(pruned.removed), ElementsAre(second, first));
  EXPECT_EQ(pruned.bytes_left, third_bytes);
}

TEST_F(FeatureFolder, KeyInUseIsNotRemoved) {
  const std::string name = make_key("1", 1, 1'000'000);
  const auto store = open("1");
  const PrunedFeatures pruned = prune_features(folder(), {.name = name});
  EXPECT_THAT(names(pruned.in_use), ElementsAre(name));
  EXPECT_EQ(good_records(*store, batch(0, 1)), 1U);
  store->close();
  EXPECT_THAT(names(prune_features(folder(), {.name = name}).removed), ElementsAre(name));
}

TEST_F(FeatureFolder, PruningKeepsOtherFilesAndTargetsOfLinks) {
  const std::string name = make_key("1", 1, 1'000'000);
  write_file_atomically(folder() / name / "notes.txt", "mine");
  write_file_atomically(temporary_.path() / "other", "mine");
  fs::create_symlink(temporary_.path() / "other", folder() / name / "7.records");
  fs::create_directory_symlink(folder() / name, folder() / "linked");
  prune_features(folder(), {.last_used_before = 2'000'000});
  EXPECT_EQ(read_text(folder() / name / "notes.txt"), "mine");
  EXPECT_EQ(read_text(temporary_.path() / "other"), "mine");
  EXPECT_FALSE(fs::exists(folder() / name / "manifest.json"));
}

TEST_F(FeatureFolder, KeyWithUnreadableManifestIsRemoved) {
  const std::string name = make_key("1", 1, 1'000'000);
  write_file_atomically(folder() / name / "manifest.json", "damaged");
  EXPECT_THAT(names(prune_features(folder(), {.name = name}).removed), ElementsAre(name));
  EXPECT_FALSE(fs::exists(folder() / name));
}

}  // namespace
}  // namespace slipstream
