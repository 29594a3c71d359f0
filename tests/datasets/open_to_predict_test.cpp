#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/open_dataset.h"
#include "datasets/unlabeled_images.h"
#include "slipstream/datasets/datasets.h"
#include "support/folder_fixture.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class OpenToPredictTest : public FolderTest {
 protected:
  std::vector<std::string> names(const Dataset& dataset) const {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < dataset.size(); ++i)
      all.push_back(fs::path(dataset.name(i)).lexically_relative(path("data")).string());
    return all;
  }
  std::shared_ptr<const Dataset> opened(const KnownClasses& classes = {},
                                        bool needs_masks = false) const {
    return open_to_predict(path("data"), classes, needs_masks);
  }
  /// Returns the kind of the opened set: "labeled", "images" or "other".
  std::string kind(const KnownClasses& classes = {}, bool needs_masks = false) const {
    const auto dataset = opened(classes, needs_masks);
    if (dataset == nullptr) return "other";
    return dataset->fields().size() == 1 ? "images" : "labeled";
  }
};

TEST_F(OpenToPredictTest, ReadsImagesOfAllFoldersInTorchvisionOrder) {
  for (const char* name : {"b.jpg", "a/z.PNG", "a/deep/er/1.jpeg", "a.png", ".hidden/x.jpg"})
    write_image(fs::path("data") / name);
  write("data/notes.txt");
  write("data/a/old.avif");
  const auto images = opened({{"cat", "dog"}, 0});
  ASSERT_NE(images, nullptr);
  EXPECT_THAT(names(*images), ElementsAre("a.png", "b.jpg", "a/z.PNG", "a/deep/er/1.jpeg"));
  EXPECT_THAT(images->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(images->remarks(),
              ElementsAre(HasSubstr("1 .avif"), HasSubstr("1 file skipped because of "
                                                          "its extension: 'notes.txt'")));
  Sample sample;
  images->read(3, sample);
  ASSERT_EQ(sample.fields.size(), 1U);
  EXPECT_TRUE(sample.fields[0].encoded);
  EXPECT_TRUE(images->decodes_by_default());
}

TEST_F(OpenToPredictTest, FoldersMatchingKnownClassesGiveLabeledDataset) {
  write_image("data/cat/1.jpg");
  write_image("data/dog/2.jpg");
  EXPECT_EQ(kind(), "other");
  EXPECT_EQ(kind({{}, 2}), "other");
  EXPECT_EQ(kind({{}, 3}), "images");
  const KnownClasses known = {{"bird", "dog", "cat"}, 3};
  EXPECT_EQ(kind(known), "labeled");
  EXPECT_EQ(kind(known, true), "images");
  const auto labeled = std::dynamic_pointer_cast<const LabeledDataset>(opened(known));
  ASSERT_NE(labeled, nullptr);
  EXPECT_THAT(labels(*labeled), ElementsAre(1, 2));  // the folders dog and cat
  EXPECT_EQ(kind({{"cat", "bird"}, 2}), "images");
  write_image("data/3.jpg");
  EXPECT_EQ(kind(known), "images");
}

TEST_F(OpenToPredictTest, ReturnsNullForDataOtherThanImageFolders) {
  EXPECT_EQ(kind(), "other");  // the folder does not exist
  write("data/a.txt");
  EXPECT_EQ(kind({}, true), "other");
  write_image("data/images/a.jpg");
  EXPECT_EQ(kind({}, true), "images");
  fs::create_directories(path("data/masks"));
  EXPECT_EQ(kind({}, true), "other");
  fs::remove(path("data/masks"));
  write("data/a.npy");
  EXPECT_EQ(kind({}, true), "other");
}

}  // namespace
}  // namespace slipstream
