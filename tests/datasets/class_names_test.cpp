#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "datasets/npy_header.h"
#include "datasets/with_cost.h"
#include "slipstream/datasets/datasets.h"
#include "support/folder_fixture.h"
#include "support/tar_writer.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using Names = std::vector<std::string>;

class ClassNamesTest : public FolderTest {
 protected:
  fs::path add_images(const std::string& folder, const Names& classes) const {
    for (const std::string& name : classes) write_image(fs::path(folder) / name / "1.jpg");
    return path(folder);
  }
  /// Adds a folder with a manifest and one shard, which has the labels 0 and 1.
  fs::path add_shards(const std::string& folder, const std::string& names) const {
    fs::create_directories(path(folder));
    TarWriter tar;
    for (const std::string key : {"0", "1"}) {
      tar.add(key + ".jpg", "image");
      tar.add(key + ".cls", key);
    }
    tar.write(path(folder) / "a.tar");
    if (!names.empty())
      write(folder + "/manifest.json",
            "{\"settings\": {\"form\": \"shards\", \"class_names\": " + names + "}}");
    return path(folder);
  }
  std::string error(const fs::path& from) const {
    return thrown_by([&] { class_names_from(from); });
  }
  static std::string refusal(const fs::path& data, const Names& names) {
    return thrown_by([&] { open_dataset(data, names); });
  }
};

TEST_F(ClassNamesTest, ReadFromFolderListAndShards) {
  EXPECT_THAT(class_names_from(add_images("images", {"b", "a"})), ElementsAre("a", "b"));
  EXPECT_THAT(class_names_from(write("a.csv", "image,label\nx,dog\ny,cat\n")),
              ElementsAre("cat", "dog"));
  EXPECT_THAT(class_names_from(add_shards("shards", "[\"cat\", \"dog\"]")),
              ElementsAre("cat", "dog"));
}

TEST_F(ClassNamesTest, ReadFromTextFileOnePerLine) {
  EXPECT_THAT(class_names_from(write("names.txt", "dog\r\nan old cat\nd\u00f6g\n\n")),
              ElementsAre("dog", "an old cat", "d\u00f6g"));
  EXPECT_THAT(class_names_from(write("names", "one")), ElementsAre("one"));
}

TEST_F(ClassNamesTest, SourceWithoutValidNamesIsRefused) {
  EXPECT_THAT(error(path("none.txt")), StartsWith("Refused: no class list '"));
  EXPECT_THAT(error(write("0.txt", "")), AllOf(StartsWith("Refused: "), HasSubstr("is empty")));
  EXPECT_THAT(error(write("1.txt", "a\n\nb\n")), HasSubstr("has no name in line 2"));
  EXPECT_THAT(error(write("2.txt", "a\nb\na\n")), HasSubstr("has 'a' twice, again in line 3"));
  EXPECT_THAT(error(write("3.txt", std::string_view("a\n\0b\n", 5))),
              HasSubstr("it contains a NUL character in line 2"));
  EXPECT_THAT(error(add_shards("shards", "")),
              AllOf(StartsWith("Refused: the data set '"), HasSubstr("no class names")));
  EXPECT_THAT(error(write("4.csv", "image,label\nx,0\n")), HasSubstr("no class names"));
}

TEST_F(ClassNamesTest, PipeOrHugeFileIsRefused) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(error(path("pipe")), HasSubstr("is not a regular file"));
  write("huge", "a");
  fs::resize_file(path("huge"), (16 << 20) + 1);
  EXPECT_THAT(error(path("huge")), HasSubstr("more than 16 MiB"));
}

TEST_F(ClassNamesTest, GivenNamesNumberValidationDataWithMissingClasses) {
  const Names names = class_names_from(add_images("train", {"ant", "bee", "cow"}));
  const auto read_labels = [&](const fs::path& data) {
    const auto dataset = open_dataset(data, names);
    EXPECT_EQ(dataset->class_names(), names);
    EXPECT_EQ(dataset->fields()[1].classes, 3);
    return labels(dynamic_cast<const LabeledDataset&>(*dataset));
  };
  EXPECT_THAT(read_labels(add_images("val", {"cow", "ant"})), ElementsAre(0, 2));
  EXPECT_THAT(read_labels(write("val.csv", "image,label\nx,cow\ny,ant\n")), ElementsAre(2, 0));
  EXPECT_THAT(refusal(add_images("more", {"ant", "yak"}), names),
              AllOf(StartsWith("Refused: "), HasSubstr("none of the 3 classes given: 'yak'")));
  EXPECT_THAT(refusal(write("more.csv", "image,label\nx,yak\n"), names),
              AllOf(StartsWith("Refused: "), HasSubstr("'yak' is not among the given classes")));
}

TEST_F(ClassNamesTest, ShardNamesAreReadFromTheManifest) {
  const auto named = open_dataset(add_shards("shards", "[\"cat\", \"dog\"]"));
  EXPECT_THAT(named->class_names(), ElementsAre("cat", "dog"));
  EXPECT_EQ(named->fields()[1].classes, 2);
  EXPECT_THAT(tar_shards({path("shards") / "a.tar"})->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(open_dataset(add_shards("others", ""))->class_names(), IsEmpty());
  add_shards("damaged", "[\"cat\", 3]");
  EXPECT_THAT(thrown_by([&] { open_dataset(path("damaged")); }),
              AllOf(StartsWith("Error: "), HasSubstr("a class's name is not text")));
}

TEST_F(ClassNamesTest, ConflictingClassNumbersAreRefused) {
  const fs::path shards = add_shards("shards", "[\"cat\", \"dog\"]");
  EXPECT_THAT(refusal(shards, {"dog", "cat"}),
              AllOf(StartsWith("Refused: '"), HasSubstr("class 0 is 'cat', not 'dog'"),
                    HasSubstr("convert the data again")));
  EXPECT_THAT(refusal(shards, {"cat"}), HasSubstr("class 1, 'dog', is one too many"));
  EXPECT_EQ(open_dataset(shards, {"cat", "dog", "hen"})->fields()[1].classes, 3);
  EXPECT_THAT(open_dataset(add_shards("others", ""), {"a", "b"})->class_names(),
              ElementsAre("a", "b"));
  const fs::path more = add_shards("more", "[\"cat\", \"hen\"]");
  EXPECT_THAT(thrown_by([&] {
                tar_shards({shards, more});
              }),
              AllOf(StartsWith("Refused: the shards '"), HasSubstr("class 1 is 'hen', not 'dog'")));
}

TEST_F(ClassNamesTest, NamesForDataWithoutLabelAreRefused) {
  const fs::path file =
      write("image.npy", npy_header({DType::uint8, {1, 2, 2, 3}}) + std::string(12, '\0'));
  EXPECT_THAT(refusal(file, {"a"}), HasSubstr("has no field 'label' whose classes could be named"));
}

TEST_F(ClassNamesTest, ConcatenationOfDifferentNamesIsRefused) {
  const auto cats = image_folder(add_images("cats", {"cat", "dog"}));
  const auto hens = image_folder(add_images("hens", {"cat", "hen"}));
  EXPECT_THAT(thrown_by([&] {
                concat_dataset({cats, hens});
              }),
              AllOf(StartsWith("Refused: "), HasSubstr("data set 1"),
                    HasSubstr("class 1 is 'hen', not 'dog'")));
  const auto both = concat_dataset({cats, cats});
  EXPECT_THAT(both->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(with_cost(subset(both, {0}), {})->class_names(), ElementsAre("cat", "dog"));
}

TEST_F(ClassNamesTest, RemarksAreKeptByWrappingDatasets) {
  const fs::path data = add_images("images", {"a"});
  write("images/a/2.avif", "x");
  const auto one = image_folder(data);
  const auto part = with_cost(subset(one, {0}), {});
  EXPECT_EQ(one->remarks().size(), 2U);
  EXPECT_EQ(part->remarks(), one->remarks());
  EXPECT_EQ(concat_dataset({one, one})->remarks().size(), 4U);
}

}  // namespace
}  // namespace slipstream
