#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slipstream/datasets/datasets.h"
#include "support/folder_fixture.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class ListedTest : public FolderTest {
 protected:
  std::string error(const std::string& name, std::string_view text,
                    const ListOptions& options = {}) const {
    return thrown_by([&] { listed(write(name, text), options); });
  }
  std::shared_ptr<const LabeledDataset> labeled(const std::string& name, std::string_view text,
                                                const ListOptions& options = {}) const {
    return std::dynamic_pointer_cast<const LabeledDataset>(listed(write(name, text), options));
  }
};

TEST_F(ListedTest, ClassNamesAreNumberedInSortedOrder) {
  const auto dataset =
      labeled("a.csv", "id,image,label\n1,a.jpg,dog\n2,\"b,c.jpg\",cat\n3,d.jpg,dog\n");
  EXPECT_THAT(dataset->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(labels(*dataset), ElementsAre(1, 0, 1));
  EXPECT_EQ(dataset->fields()[1].classes, 2);
  EXPECT_EQ(dataset->name(1), path("b,c.jpg").string());
}

TEST_F(ListedTest, AcceptsClassNamesThatBeginLikeNumbers) {
  const auto dataset = labeled("a.csv", "image,label\na,3-5\nb,1.5\nc,2nd\nd,-\n");
  EXPECT_THAT(dataset->class_names(), ElementsAre("-", "1.5", "2nd", "3-5"));
}

TEST_F(ListedTest, DuplicateColumnNameIsRefused) {
  for (const char* header : {"image,label,image", "image,label,other,other"})
    EXPECT_THAT(error("a.csv", std::string(header) + "\na,1,b,2\n"),
                AllOf(StartsWith("Refused: '"), HasSubstr("a.csv' has two columns '")));
  EXPECT_EQ(labeled("a.csv", "image,label,,\na,1,,\n")->size(), 1U);
}

TEST_F(ListedTest, AcceptsClassNumbers) {
  const auto dataset = labeled("a.csv", "label,image\n4,a.jpg\n0,b.jpg\n");
  EXPECT_THAT(dataset->class_names(), IsEmpty());
  EXPECT_THAT(labels(*dataset), ElementsAre(4, 0));
  EXPECT_EQ(dataset->fields()[1].classes, 5);
}

TEST_F(ListedTest, SingleClassIsRemarked) {
  EXPECT_THAT(labeled("a.csv", "image,label\na,cat\nb,cat\n")->remarks(),
              ElementsAre(HasSubstr("all samples are of one class, 'cat'")));
  EXPECT_THAT(labeled("a.csv", "image,label\na,4\nb,4\n")->remarks(),
              ElementsAre(HasSubstr("one class, '4'")));
  EXPECT_THAT(labeled("a.csv", "image,label\na,cat\nb,dog\n")->remarks(), IsEmpty());
}

TEST_F(ListedTest, GivenClassesNumberTheLabels) {
  const ListOptions options{.classes = {"dog", "cat", "cow"}};
  const auto dataset = labeled("a.csv", "image,label\na,cat\nb,2\n", options);
  EXPECT_THAT(labels(*dataset), ElementsAre(1, 2));
  EXPECT_EQ(dataset->fields()[1].classes, 3);
  EXPECT_THAT(error("a.csv", "image,label\na,cat\nb,hen\n", options),
              AllOf(StartsWith("Refused: '"), HasSubstr("a.csv', line 3: the class 'hen'")));
  EXPECT_THAT(error("a.csv", "image,label\na,3\n", options),
              HasSubstr("line 2: the class 3 is too"));
}

TEST_F(ListedTest, ReadsJsonLines) {
  const std::string text =
      "{\"file\": \"a.jpg\", \"y\": 3}\n\n{\"y\": 1, \"file\": \"\\u00e4.jpg\"}\r\n";
  const auto dataset = labeled("a.jsonl", text, {.image = "file", .label = "y"});
  EXPECT_THAT(labels(*dataset), ElementsAre(3, 1));
  EXPECT_EQ(dataset->name(1), path("\xc3\xa4.jpg").string());
}

TEST_F(ListedTest, SkipsByteOrderMark) {
  EXPECT_THAT(labels(*labeled("a.csv", "\xef\xbb\xbfimage,label\na.jpg,3\n")), ElementsAre(3));
  EXPECT_THAT(labels(*labeled("a.jsonl", "\xef\xbb\xbf{\"image\": \"a.jpg\", \"label\": 4}\n")),
              ElementsAre(4));
}

TEST_F(ListedTest, UndeclaredClassNumbersAreLimitedToAMillion) {
  EXPECT_EQ(labeled("a.csv", "image,label\na,999999\n")->fields()[1].classes, 1'000'000);
  EXPECT_THAT(error("a.csv", "image,label\na,1\nb,1000000\n"),
              AllOf(StartsWith("Error: "), HasSubstr("line 3: the class 1000000 is too large"),
                    HasSubstr("write their names")));
}

TEST_F(ListedTest, ReadReturnsEncodedImageAndLabel) {
  write_image("sub dir/1.jpg");
  const std::string absolute = path("sub dir/1.jpg").string();
  const auto dataset = labeled("a.csv", "image,label\nsub dir/1.jpg,7\n" + absolute + ",1\n");
  Sample sample;
  for (std::size_t i = 0; i < 2; ++i) {
    dataset->read(i, sample);
    EXPECT_TRUE(sample.fields[0].encoded);
    EXPECT_EQ(sample.fields[0].array.view().bytes(), image_record("rgb_420.jpg").file.size());
    EXPECT_EQ(sample.fields[1].array.view().as<std::int64_t>()[0], i == 0 ? 7 : 1);
  }
}

TEST_F(ListedTest, MaskIsReadAndMustHaveTheImageSize) {
  write_image("1.jpg");
  write_image("1.png", "gray_8.png");
  const Levels gray(4 * 6);
  write_file_atomically(path("2.png"), encode_png(view_levels(gray, {4, 6})));
  const auto dataset = listed(write("a.csv", "image,mask\n1.jpg,1.png\n1.jpg,2.png\n"),
                              {.mask = "mask", .mask_classes = 9});
  EXPECT_EQ(dataset->fields()[1].kind, FieldKind::mask);
  EXPECT_EQ(dataset->fields()[1].classes, 9);
  Sample sample;
  dataset->read(0, sample);
  EXPECT_EQ(sample.fields[1].array.view().bytes(), image_record("gray_8.png").file.size());
  EXPECT_THAT(thrown_by([&] { dataset->read(1, sample); }),
              AllOf(StartsWith("Error: "), HasSubstr("2.png' is 6 x 4 pixels")));
}

TEST_F(ListedTest, UnusableListIsRefused) {
  EXPECT_THAT(thrown_by([&] { listed(path("none.csv")); }),
              AllOf(StartsWith("Refused: "), HasSubstr("none.csv"), HasSubstr("No such file")));
  EXPECT_THAT(error("a.txt", "x"), AllOf(StartsWith("Refused: "), HasSubstr("a.txt"),
                                         HasSubstr("neither .csv, .jsonl, .ndjson nor .json")));
  EXPECT_THAT(
      error("a.csv", "image,lable\na,1\n"),
      AllOf(StartsWith("Refused: "), HasSubstr("a.csv"), HasSubstr("did you mean 'lable'")));
  EXPECT_THAT(error("a.csv", "image,label\n"),
              AllOf(StartsWith("Error: "), HasSubstr("no samples")));
  EXPECT_THAT(error("a.csv", ""), HasSubstr("no samples"));
  EXPECT_THAT(error("a.csv", "image,label\na,1\n", {.label = "image", .mask_classes = 257}),
              AllOf(StartsWith("Refused: "), HasSubstr("cannot be both"), HasSubstr("257")));
}

TEST_F(ListedTest, ErrorsReportTheLineNumber) {
  EXPECT_THAT(error("a.csv", "image,label\na,1\nb\n"),
              HasSubstr("a.csv', line 3: it has 1 field,"));
  EXPECT_THAT(error("a.csv", "image,label\n\"a,1\n"), HasSubstr("line 2: a quote is not closed"));
  EXPECT_THAT(error("a.csv", "image,label\n,1\n"), HasSubstr("line 2: the image's path is empty"));
  EXPECT_THAT(error("a.csv", "image,label\na,\n"), HasSubstr("line 2: the label is empty"));
  EXPECT_THAT(error("a.csv", "image,label\na,cat\nb,1\n"),
              HasSubstr("line 3: this label is a number"));
  for (const std::string odd : {" 2", "2 ", "2.0", "-1", "+3"})
    EXPECT_THAT(error("a.csv", "image,label\na,0\nb," + odd + "\n"),
                HasSubstr("line 3: the label '" + odd + "' is not a class index"));
  EXPECT_THAT(error("a.csv", "image,label\na,99999999999\n"),
              HasSubstr("line 2: the class 99999999999"));
  EXPECT_THAT(error("a.csv", "image,mask\na,\n", {.mask = "mask"}),
              HasSubstr("line 2: the mask's path"));
  using namespace std::string_view_literals;
  EXPECT_THAT(
      error("a.csv", "image,label\na\0b,1\n"sv),
      AllOf(StartsWith("Error: "), HasSubstr("line 2: the image's path contains a NUL character")));
  EXPECT_THAT(
      error("a.jsonl", "\n{\"image\": \"a\", \"mask\": \"b\\u0000.png\"}\n", {.mask = "mask"}),
      HasSubstr("line 2: the mask's path contains a NUL character"));
  EXPECT_THAT(error("a.jsonl", "{}\n"), HasSubstr("a.jsonl', line 1: it has no \"image\""));
  EXPECT_THAT(error("a.jsonl", "\n[1]\n"), HasSubstr("line 2: it is not a JSON object"));
  EXPECT_THAT(error("a.jsonl", "{\"image\"\n"), HasSubstr("line 1: it is not JSON;"));
  EXPECT_THAT(error("a.jsonl", "{\"image\": \"a\", \"label\": 1.5}\n"),
              HasSubstr("line 1: \"label\" is number: give"));
}

}  // namespace
}  // namespace slipstream
