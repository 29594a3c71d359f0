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

TEST_F(ClassFolderTest, ReadsEverySupportedExtension) {
  for (const char* name : {"c/1.jpe", "c/2.JFIF", "c/3.ppm", "c/4.pgm", "c/5.jpeg", "c/6.jpg",
                           "c/7.Png", "c/8.bmp", "c/9.GIF", "c/a.tif", "c/b.tiff", "c/c.WebP"})
    add(name);
  EXPECT_EQ(samples().size(), 12u);
}

TEST_F(ClassFolderTest, FilesAreSelectedByTheGivenExtensions) {
  for (const char* name : {"c/1.jpg", "c/2.PNG", "c/3_left.jpg", "c/4.npy", "c/.5.npy"}) add(name);
  EXPECT_THAT(samples({.extensions = {".NPY", "_left.jpg"}}),
              ElementsAre("0 c/3_left.jpg", "0 c/4.npy"));
  EXPECT_THAT(error({.extensions = {".avif", ".raw"}}),
              HasSubstr("1 class without images: 'c'\nadd images (.avif, .raw), or remove the"));
}

TEST_F(ClassFolderTest, FunctionIsCalledOncePerFileInTheOrderOfSamples) {
  for (const char* name : {"b/1.jpg", "a/x/3.txt", "a/2.txt", "a/.hidden", "a/.sub/4.jpg", "5.jpg"})
    add(name);
  std::vector<std::string> called;
  const auto is_valid = [&](const fs::path& path) {
    called.push_back(path.lexically_relative(dir()).string());
    return path.extension() != ".txt" || path.stem() == "2";
  };
  EXPECT_THAT(samples({.is_valid_file = is_valid}),
              ElementsAre("0 a/.hidden", "0 a/2.txt", "0 a/.sub/4.jpg", "1 b/1.jpg"));
  EXPECT_THAT(called, ElementsAre("a/.hidden", "a/2.txt", "a/.sub/4.jpg", "a/x/3.txt", "b/1.jpg"));
  EXPECT_THAT(error({.is_valid_file = [](const fs::path&) { return false; }}),
              HasSubstr("files for which is_valid_file returns true"));
  EXPECT_THAT(error({.extensions = {".jpg"}, .is_valid_file = is_valid}), HasSubstr("give one of"));
}

TEST_F(ClassFolderTest, ClassesMayBeEmptyIfAllowed) {
  add("a/1.txt");
  add("b/1.jpg");
  EXPECT_THAT(samples({.allow_empty = true}), ElementsAre("1 b/1.jpg"));
  fs::remove(dir() / "b/1.jpg");
  EXPECT_EQ(image_folder(dir(), {.allow_empty = true})->size(), 0u);
}

TEST_F(ClassFolderTest, KnownFilesAreReadWithoutASearch) {
  add("a/1.png", "rgb.png");
  const auto dataset = labeled_images({"a", "b"}, {{(dir() / "a/1.png").string(), 1}});
  EXPECT_EQ(dataset->name(0), (dir() / "a/1.png").string());
  EXPECT_EQ(dataset->label(0), 1);
  EXPECT_EQ(dataset->fields()[1].classes, 2);
  Sample sample;
  dataset->read(0, sample);
  EXPECT_EQ(sample.fields[0].array.view().bytes(), image_record("rgb.png").file.size());
  EXPECT_THAT(thrown_by([] {
                labeled_images({"a"}, {{"x.jpg", 1}});
              }),
              HasSubstr("'x.jpg' has class 1, but there are 1 classes"));
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

TEST_F(ClassFolderTest, FollowsSymlinksExceptLoops) {
  add("a/real/1.jpg");
  add("elsewhere/2.jpg");
  fs::rename(dir() / "elsewhere", folder_.path() / "elsewhere");
  fs::create_directory_symlink(dir() / "a", dir() / "a/real/loop");
  fs::create_directory_symlink("again", dir() / "a/again");
  fs::create_directory_symlink("real", dir() / "a/twin");
  fs::create_directory_symlink(folder_.path() / "elsewhere", dir() / "b");
  fs::create_symlink("real/1.jpg", dir() / "a/link.jpg");
  // torchvision also reads "twin", but follows "loop" 40 times.
  EXPECT_THAT(samples(),
              ElementsAre("0 a/link.jpg", "0 a/real/1.jpg", "0 a/twin/1.jpg", "1 b/2.jpg"));
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
  add("2.jxl");
  EXPECT_THAT(error(), AllOf(HasSubstr("but 2 images;"), HasSubstr("(1 .jxl)")));
}

TEST_F(ClassFolderTest, ClassesWithoutImagesAreNamedInTheError) {
  add("a/1.jpg");
  for (const char* name : {"b", "c", "d", "e"}) fs::create_directories(dir() / name / "deeper");
  EXPECT_THAT(error(), AllOf(StartsWith("Error: "),
                             HasSubstr("4 classes without images: 'b', 'c', 'd', ...\n"
                                       "add images (.jpg, .jpeg, .jpe, .jfif, .png,")));
}

TEST_F(ClassFolderTest, SkippedFilesAreCountedByReasonInRemarksAndErrors) {
  for (const char* path : {"a/1.jpg", "a/2.avif", "a/3.AVIF", "b/1.jpg", "b/x/2.heic", "b/3.txt",
                           "b/4.xml", "b/._1.jpg", "b/.hidden/5.jpg"})
    add(path);
  EXPECT_THAT(
      image_folder(dir())->remarks(),
      ElementsAre(
          AllOf(HasSubstr("data': 3 files have formats that are not supported"),
                HasSubstr("(2 .avif, 1 .heic)"), HasSubstr("to JPEG or PNG")),
          HasSubstr("data': 2 files skipped because of their extension, the first 'b/3.txt'"),
          HasSubstr("data': 1 hidden file skipped: 'b/._1.jpg'")));
  fs::remove(dir() / "b/1.jpg");
  EXPECT_THAT(error(), AllOf(HasSubstr("1 class without images: 'b'"),
                             HasSubstr("3 files have formats that are not supported")));
}

TEST_F(ClassFolderTest, ImagesOutsideClassFoldersAreCountedInRemarks) {
  for (const char* path : {"a/1.jpg", "b/1.jpg", "3.txt", "4.jpg"}) add(path);
  EXPECT_THAT(image_folder(dir())->remarks(),
              ElementsAre(HasSubstr("data': 1 image outside of the class folders is ignored")));
  add("5.avif");
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
