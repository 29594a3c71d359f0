#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "slipstream/datasets/dataset.h"
#include "support/folder_fixture.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class SegmentationFolderTest : public FolderTest {
 protected:
  SegmentationFolderTest() {
    fs::create_directories(images());
    fs::create_directories(masks());
  }
  fs::path dir() const { return folder_.path() / "data"; }
  fs::path images() const { return dir() / "images"; }
  fs::path masks() const { return dir() / "masks"; }

  void add_image(const std::string& file, const std::string& record = "rgb_420.jpg") {
    write_image("data/images/" + file, record);
  }
  void add_mask(const std::string& file, const std::string& record = "gray_8.png") {
    write_image("data/masks/" + file, record);
  }
  void add_pair(const std::string& name) {
    add_image(name + ".jpg");
    add_mask(name + ".png");
  }
  std::string error() const {
    return thrown_by([&] { segmentation_folder(dir(), 10); });
  }
  std::string read_error() const {
    const auto dataset = segmentation_folder(dir(), 10);
    Sample sample;
    return thrown_by([&] { dataset->read(0, sample); });
  }
  std::vector<std::string> names() const {
    const auto dataset = segmentation_folder(dir(), 10);
    std::vector<std::string> all;
    for (std::size_t i = 0; i < dataset->size(); ++i) {
      all.push_back(fs::path(dataset->name(i)).filename().string());
    }
    return all;
  }
};

TEST_F(SegmentationFolderTest, HasImageAndMaskFields) {
  add_pair("a");
  const auto fields = segmentation_folder(dir(), 7)->fields();
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].name, "image");
  EXPECT_EQ(fields[0].kind, FieldKind::image);
  EXPECT_EQ(fields[0].shape, Shape({-1, -1, 3}));
  EXPECT_EQ(fields[1].name, "label");
  EXPECT_EQ(fields[1].kind, FieldKind::mask);
  EXPECT_EQ(fields[1].shape, Shape({-1, -1}));
  EXPECT_EQ(fields[1].dtype, DType::uint8);
  EXPECT_EQ(fields[1].classes, 7);
}

TEST_F(SegmentationFolderTest, ReadReturnsEncodedFiles) {
  add_image("a.jpg", "progressive.jpg");
  add_mask("a.png", "palette_4.png");
  Sample sample;
  segmentation_folder(dir(), 10)->read(0, sample);
  ASSERT_EQ(sample.fields.size(), 2u);
  EXPECT_TRUE(sample.fields[0].encoded);
  EXPECT_TRUE(sample.fields[1].encoded);
  EXPECT_EQ(sample.fields[0].array.view().bytes(), image_record("progressive.jpg").file.size());
  EXPECT_EQ(sample.fields[1].array.view().bytes(), image_record("palette_4.png").file.size());
}

TEST_F(SegmentationFolderTest, IsSortedByName) {
  for (const char* name : {"b", "a", "a10", "a.b", "A", "a2"}) add_pair(name);
  EXPECT_EQ(names(),
            (std::vector<std::string>{"A.jpg", "a.jpg", "a.b.jpg", "a10.jpg", "a2.jpg", "b.jpg"}));
}

TEST_F(SegmentationFolderTest, AcceptsEveryImageExtensionInEitherCase) {
  add_image("1.jpg");
  add_image("2.jpeg");
  add_image("3.png", "rgb.png");
  add_image("4.JPG");
  for (const char* mask : {"1.png", "2.png", "3.png", "4.PNG"}) add_mask(mask);
  EXPECT_EQ(names(), (std::vector<std::string>{"1.jpg", "2.jpeg", "3.png", "4.JPG"}));
}

TEST_F(SegmentationFolderTest, IgnoresHiddenAndOtherFiles) {
  add_pair("a");
  std::ofstream(images() / "notes.txt") << "text";
  std::ofstream(images() / ".hidden.jpg") << "text";
  std::ofstream(masks() / ".DS_Store") << "text";
  fs::create_directory(images() / "folder.jpg");
  EXPECT_EQ(names(), (std::vector<std::string>{"a.jpg"}));
}

TEST_F(SegmentationFolderTest, AcceptsSymlinksSpacesUnicodeAndDots) {
  add_pair("with space");
  add_pair(
      "Stra\xc3\x9f"
      "e");
  add_pair("dots.in.it");
  fs::create_symlink(images() / "dots.in.it.jpg", images() / "link.jpg");
  fs::create_symlink(masks() / "dots.in.it.png", masks() / "link.png");
  const auto dataset = segmentation_folder(dir(), 10);
  ASSERT_EQ(dataset->size(), 4u);
  Sample sample;
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NO_THROW(dataset->read(i, sample));
}

TEST_F(SegmentationFolderTest, FormatIsDetectedFromContentNotExtension) {
  add_image("a.jpg", "rgb.png");
  add_mask("a.png");
  EXPECT_EQ(read_error(), "nothing");
}

TEST_F(SegmentationFolderTest, MissingFolderIsRefused) {
  const auto error = [](const fs::path& path) {
    return thrown_by([&] { segmentation_folder(path, 10); });
  };
  EXPECT_THAT(error(dir() / "none"), AllOf(StartsWith("Refused: no folder '"), HasSubstr("none")));
  std::ofstream(dir() / "file") << "text";
  EXPECT_THAT(error(dir() / "file"), AllOf(StartsWith("Refused: "), HasSubstr("is not a folder")));
  fs::remove(masks());
  EXPECT_THAT(error(dir()), AllOf(StartsWith("Refused: no folder '"), HasSubstr("masks")));
  fs::remove(images());
  EXPECT_THAT(error(dir()), AllOf(StartsWith("Refused: no folder '"), HasSubstr("images")));
}

TEST_F(SegmentationFolderTest, ClassCountOutsideUint8IsRefused) {
  add_pair("a");
  EXPECT_THAT(thrown_by([&] { segmentation_folder(dir(), 257); }), StartsWith("Refused: classes"));
  EXPECT_THAT(thrown_by([&] { segmentation_folder(dir(), -1); }), StartsWith("Refused: classes"));
  EXPECT_EQ(thrown_by([&] { segmentation_folder(dir(), 256); }), "nothing");
}

TEST_F(SegmentationFolderTest, FolderWithoutImagesThrows) {
  EXPECT_THAT(error(), StartsWith("Error: no images in '"));
}

TEST_F(SegmentationFolderTest, ImagesWithoutMaskAreNamedInTheError) {
  add_pair("good");
  add_image("bad.jpg");
  EXPECT_THAT(error(),
              AllOf(StartsWith("Error: "), HasSubstr("1 name without masks/NAME.png: 'bad'")));
}

TEST_F(SegmentationFolderTest, MasksWithoutImageAreNamedInTheError) {
  add_pair("good");
  add_mask("bad.png");
  EXPECT_THAT(error(), AllOf(StartsWith("Error: "), HasSubstr("1 name without images/"),
                             HasSubstr("'bad'")));
}

TEST_F(SegmentationFolderTest, ImagesWithSameStemAreNamedInTheError) {
  add_pair("good");
  add_image("good.png", "rgb.png");
  EXPECT_THAT(error(),
              AllOf(StartsWith("Error: "), HasSubstr("more than one"), HasSubstr("'good'")));
}

TEST_F(SegmentationFolderTest, ErrorListsAllProblemsButAtMostThreeNames) {
  for (const char* name : {"a", "b", "c", "d", "e"}) add_image(std::string(name) + ".jpg");
  add_mask("z.png");
  EXPECT_THAT(error(), AllOf(HasSubstr("5 names without masks/NAME.png: 'a', 'b', 'c', ..."),
                             HasSubstr("1 name without images/")));
}

TEST_F(SegmentationFolderTest, MaskOfAnotherSizeThrows) {
  add_image("a.jpg");
  const Levels gray(4 * 6);
  write_file_atomically(masks() / "a.png", encode_png(view_levels(gray, {4, 6})));
  EXPECT_THAT(read_error(), AllOf(StartsWith("Error: "), HasSubstr("masks/a.png' is 6 x 4 pixels"),
                                  HasSubstr("images/a.jpg' is 21 x 13")));
}

TEST_F(SegmentationFolderTest, InvalidImageFileIsNamedInTheError) {
  add_pair("a");
  std::ofstream(images() / "a.jpg") << "not an image";
  EXPECT_THAT(read_error(), AllOf(StartsWith("Error: "), HasSubstr("images/a.jpg"),
                                  HasSubstr("not a JPEG, PNG, PPM, BMP, GIF, TIFF or WebP file")));
  std::ofstream(images() / "a.jpg", std::ios::trunc);
  EXPECT_THAT(read_error(), AllOf(HasSubstr("images/a.jpg"), HasSubstr("is empty")));
}

TEST_F(SegmentationFolderTest, UnsupportedFormatsAreCountedInRemarksAndErrors) {
  add_pair("a");
  EXPECT_TRUE(segmentation_folder(dir(), 10)->remarks().empty());
  add_image("b.JXL");
  EXPECT_THAT(segmentation_folder(dir(), 10)->remarks(),
              testing::ElementsAre(HasSubstr("1 file has a format that is not supported "
                                             "(1 .jxl): convert it to JPEG or PNG")));
  add_mask("b.png");
  EXPECT_THAT(error(), AllOf(HasSubstr("1 name without images/"), HasSubstr("(1 .jxl)")));
  for (const char* name : {"a", "b"}) fs::remove(masks() / (std::string(name) + ".png"));
  fs::remove(images() / "a.jpg");
  EXPECT_THAT(error(), AllOf(HasSubstr("no images in"), HasSubstr("(1 .jxl)")));
}

TEST_F(SegmentationFolderTest, SkippedFilesOfBothFoldersAreCountedByReason) {
  add_pair("a");
  for (const char* name : {"images/.b.jpg", "images/c.txt", "masks/a.jpg"})
    std::ofstream(dir() / name) << "x";
  EXPECT_THAT(
      segmentation_folder(dir(), 10)->remarks(),
      testing::ElementsAre(HasSubstr("2 files skipped because of their extension, the first "
                                     "'images/c.txt'"),
                           HasSubstr("1 hidden file skipped: 'images/.b.jpg'")));
}

TEST_F(SegmentationFolderTest, BrokenSymlinkIsNamedInTheError) {
  add_pair("a");
  fs::create_symlink("nowhere.jpg", images() / "0.jpg");
  add_mask("0.png");
  EXPECT_THAT(read_error(), AllOf(HasSubstr("images/0.jpg"), HasSubstr("No such file")));
}

}  // namespace
}  // namespace slipstream
