#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "slipstream/datasets/datasets.h"
#include "support/folder_fixture.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class ClassFolderTest : public FolderTest {
 protected:
  fs::path dir() const { return folder_.path() / "data"; }

  void add(const fs::path& name, const std::string& record = "rgb_420.jpg") {
    write_image("data" / name, record);
  }
  /// Returns "LABEL PATH" for each sample.
  std::vector<std::string> samples(const ImageFolderOptions& options = {}) const {
    const auto dataset = image_folder(dir(), options);
    std::vector<std::string> all;
    for (std::size_t i = 0; i < dataset->size(); ++i) {
      all.push_back(std::to_string(dataset->label(i)) + " " +
                    fs::path(dataset->name(i)).lexically_relative(dir()).string());
    }
    return all;
  }
  std::string error(const ImageFolderOptions& options = {}) const {
    return thrown_by([&] { image_folder(dir(), options); });
  }
};

TEST_F(ClassFolderTest, HasImageAndLabelFieldsAndClassNames) {
  add("cat/1.jpg");
  add("dog/1.jpg");
  const auto dataset = image_folder(dir());
  const auto fields = dataset->fields();
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].name, "image");
  EXPECT_EQ(fields[0].kind, FieldKind::image);
  EXPECT_EQ(fields[0].shape, Shape({-1, -1, 3}));
  EXPECT_EQ(fields[1].name, "label");
  EXPECT_EQ(fields[1].kind, FieldKind::label);
  EXPECT_EQ(fields[1].dtype, DType::int64);
  EXPECT_EQ(fields[1].shape, Shape());
  EXPECT_EQ(fields[1].classes, 2);
  EXPECT_THAT(dataset->class_names(), ElementsAre("cat", "dog"));
}

TEST_F(ClassFolderTest, NestedFoldersAreOrderedAsInTorchvision) {
  for (const char* name : {"c/z.jpg", "c/a/2.jpg", "c/a/x/1.jpg", "c/a-b/1.jpg", "c/a.jpg"})
    add(name);
  EXPECT_THAT(samples(), ElementsAre("0 c/a.jpg", "0 c/z.jpg", "0 c/a/2.jpg", "0 c/a-b/1.jpg",
                                     "0 c/a/x/1.jpg"));
}

TEST_F(ClassFolderTest, ReadsEveryJpegAndPnmExtension) {
  for (const char* name : {"c/1.jpe", "c/2.JFIF", "c/3.ppm", "c/4.pgm", "c/5.jpeg"}) add(name);
  EXPECT_EQ(samples().size(), 5u);
}

TEST_F(ClassFolderTest, ReadReturnsEncodedFileAndLabel) {
  add("a/1.jpg");
  add("b/2.png", "rgb.png");
  Sample sample;
  image_folder(dir())->read(1, sample);
  ASSERT_EQ(sample.fields.size(), 2u);
  EXPECT_TRUE(sample.fields[0].encoded);
  EXPECT_EQ(sample.fields[0].array.view().bytes(), image_record("rgb.png").file.size());
  EXPECT_FALSE(sample.fields[1].encoded);
  EXPECT_EQ(sample.fields[1].array.view().as<std::int64_t>()[0], 1);
}

TEST_F(ClassFolderTest, IsSortedByClassAndPathAtAnyDepth) {
  for (const char* path :
       {"b/2.jpg", "b/10.JPEG", "a/x/y/z.Png", "a/x.jpg", "a/x-1/1.jpg", "B/1.jpg"}) {
    add(path);
  }
  EXPECT_THAT(samples(), ElementsAre("0 B/1.jpg", "1 a/x.jpg", "1 a/x-1/1.jpg", "1 a/x/y/z.Png",
                                     "2 b/10.JPEG", "2 b/2.jpg"));
}

TEST_F(ClassFolderTest, IgnoresHiddenOtherAndTopLevelFiles) {
  for (const char* path :
       {"a/1.jpg", "top.jpg", ".hidden/1.jpg", "a/.hidden.jpg", "a/.sub/1.jpg", "a/1.txt"}) {
    add(path);
  }
  EXPECT_THAT(samples(), ElementsAre("0 a/1.jpg"));
}

TEST_F(ClassFolderTest, AcceptsSpacesAndUnicodeInNames) {
  add("with space/an image.jpg");
  add("Stra\xc3\x9f"
      "e/\xe7\x8c\xab.jpg");
  const auto dataset = image_folder(dir());
  EXPECT_THAT(dataset->class_names(), ElementsAre("Stra\xc3\x9f"
                                                  "e",
                                                  "with space"));
  Sample sample;
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NO_THROW(dataset->read(i, sample));
}

TEST_F(ClassFolderTest, FollowsSymlinksButVisitsEachFolderOnce) {
  add("a/real/1.jpg");
  add("elsewhere/2.jpg");
  fs::rename(dir() / "elsewhere", folder_.path() / "elsewhere");
  fs::create_directory_symlink(dir() / "a", dir() / "a/real/loop");
  fs::create_directory_symlink("again", dir() / "a/again");
  fs::create_directory_symlink("real", dir() / "a/twin");
  fs::create_directory_symlink(folder_.path() / "elsewhere", dir() / "b");
  fs::create_symlink("real/1.jpg", dir() / "a/link.jpg");
  EXPECT_THAT(samples(), ElementsAre("0 a/link.jpg", "0 a/real/1.jpg", "1 b/2.jpg"));
}

TEST_F(ClassFolderTest, ReadingABrokenSymlinkReportsItsPath) {
  add("a/1.jpg");
  fs::create_symlink("nowhere.jpg", dir() / "a/0.jpg");
  Sample sample;
  const auto dataset = image_folder(dir());
  EXPECT_THAT(thrown_by([&] { dataset->read(0, sample); }),
              AllOf(HasSubstr("a/0.jpg"), HasSubstr("No such file")));
}

TEST_F(ClassFolderTest, MissingFolderOrFileIsRefused) {
  EXPECT_THAT(error(),
              AllOf(StartsWith("Refused: no folder '"), HasSubstr("one folder of images")));
  std::ofstream(dir()) << "text";
  EXPECT_THAT(error(), AllOf(StartsWith("Refused: "), HasSubstr("is not a folder")));
}

TEST_F(ClassFolderTest, UnreadableFolderIsRefused) {
  constexpr ::uid_t kNobody = 65534;
  add("a/1.jpg");
  add("a/closed/1.jpg");
  fs::permissions(folder_.path(), fs::perms::all);
  fs::permissions(dir() / "a/closed", fs::perms::none);
  const ::uid_t user = ::geteuid();
  if (user == 0) {
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  const std::string thrown = error();
  ASSERT_EQ(::seteuid(user), 0);
  fs::permissions(dir() / "a/closed", fs::perms::all);
  EXPECT_THAT(thrown, AllOf(StartsWith("Refused: cannot list '"), HasSubstr("a/closed"),
                            HasSubstr("Permission denied")));
}

TEST_F(ClassFolderTest, FolderWithoutClassesThrows) {
  add("1.jpg");
  EXPECT_THAT(error(), AllOf(StartsWith("Error: no class in '"), HasSubstr("but 1 image;")));
  add("2.bmp");
  EXPECT_THAT(error(), AllOf(HasSubstr("but 2 images;"), HasSubstr("(1 .bmp)")));
}

TEST_F(ClassFolderTest, ClassesWithoutImagesAreNamedInTheError) {
  add("a/1.jpg");
  for (const char* name : {"b", "c", "d", "e"}) fs::create_directories(dir() / name / "deeper");
  EXPECT_THAT(error(),
              AllOf(StartsWith("Error: "), HasSubstr("4 classes without .jpg, .jpeg, .jpe, .jfif, "
                                                     ".png, .ppm or .pgm: 'b', 'c', 'd', ...")));
}

TEST_F(ClassFolderTest, UnsupportedFormatsAreCountedInRemarksAndErrors) {
  for (const char* path : {"a/1.jpg", "a/2.webp", "a/3.WEBP", "b/1.jpg", "b/x/2.gif", "b/3.txt"})
    add(path);
  EXPECT_THAT(image_folder(dir())->remarks(),
              ElementsAre(AllOf(HasSubstr("data': 3 files have formats that are not supported"),
                                HasSubstr("(1 .gif, 2 .webp)"), HasSubstr("to JPEG or PNG"))));
  fs::remove(dir() / "b/1.jpg");
  EXPECT_THAT(error(),
              AllOf(HasSubstr("1 class without .jpg, .jpeg, .jpe, .jfif, .png, .ppm or .pgm: 'b'"),
                    HasSubstr("3 files have formats that are not supported")));
}

TEST_F(ClassFolderTest, ImagesOutsideClassFoldersAreCountedInRemarks) {
  for (const char* path : {"a/1.jpg", "b/1.jpg", "3.txt", "4.jpg"}) add(path);
  EXPECT_THAT(image_folder(dir())->remarks(),
              ElementsAre(HasSubstr("data': 1 image outside of the class folders is ignored")));
  add("5.webp");
  EXPECT_THAT(image_folder(dir())->remarks(),
              ElementsAre(HasSubstr("2 images outside of the class folders are ignored")));
}

TEST_F(ClassFolderTest, SingleClassIsRemarked) {
  add("a/1.jpg");
  EXPECT_THAT(image_folder(dir())->remarks(),
              ElementsAre(HasSubstr("all samples are of one class, 'a'")));
  EXPECT_THAT(image_folder(dir(), {.classes = {"b", "a"}})->remarks(),
              ElementsAre(HasSubstr("one class, 'a'")));
  add("b/1.jpg");
  EXPECT_THAT(image_folder(dir())->remarks(), ElementsAre());
}

TEST_F(ClassFolderTest, ClassesAreNumberedInTheGivenOrder) {
  add("a/1.jpg");
  add("c/1.jpg");
  const ImageFolderOptions options{.classes = {"c", "b", "a"}};
  EXPECT_THAT(samples(options), ElementsAre("0 c/1.jpg", "2 a/1.jpg"));
  EXPECT_EQ(image_folder(dir(), options)->fields()[1].classes, 3);
}

TEST_F(ClassFolderTest, MismatchedClassesAreRefused) {
  add("a/1.jpg");
  add("new/1.jpg");
  EXPECT_THAT(error({.classes = {"a", "b"}}),
              AllOf(StartsWith("Refused: "),
                    HasSubstr("1 folder that is none of the 2 classes given: 'new'")));
  EXPECT_THAT(error({.classes = {"a"}}), HasSubstr("1 folder that is not the class given: 'new'"));
  EXPECT_THAT(error({.classes = {"a", "a"}}), StartsWith("Refused: the classes given"));
  fs::remove(dir() / "a/1.jpg");
  fs::remove(dir() / "new/1.jpg");
  EXPECT_THAT(error({.classes = {"a", "new"}}), HasSubstr("2 classes without"));
}

}  // namespace
}  // namespace slipstream
