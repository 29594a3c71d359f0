#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "slipstream/datasets/datasets.h"
#include "support/folder_fixture.h"
#include "support/thrown.h"
#include "tools/drawn_text.h"
#include "tools/inspect.h"

namespace slipstream {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kContactCell = 32;
constexpr Rgb kWhite = {255, 255, 255}, kBlackInk = {0, 0, 0};

/// Decoded, to be looked into.
class ContactSheetPixels {
 public:
  explicit ContactSheetPixels(const std::vector<std::byte>& png) { decode_rgb(png, {}, pixels_); }
  Shape shape() const { return pixels_.view().shape; }
  Rgb at(std::int64_t y, std::int64_t x) const {
    const std::uint8_t* const pixel = pixels_.view().as<std::uint8_t>() + (y * shape()[1] + x) * 3;
    return {pixel[0], pixel[1], pixel[2]};
  }
  /// Of the middle of a cell; rows are `height` pixels high.
  Rgb cell(std::int64_t row, std::int64_t column, std::int64_t height) const {
    return at(row * height + kContactCell / 2, column * kContactCell + kContactCell / 2);
  }
  bool has(const Rgb& color, std::int64_t top, std::int64_t rows) const {
    for (std::int64_t y = top; y < top + rows; ++y)
      for (std::int64_t x = 0; x < shape()[1]; ++x)
        if (at(y, x) == color) return true;
    return false;
  }

 private:
  HostArray pixels_;
};

/// 8 x 4 images, each all of the level of its number, with the labels given; none: images alone.
std::shared_ptr<const Dataset> images_of(std::int64_t count,
                                         const std::vector<std::int64_t>& labels = {}) {
  HostArray images, numbers;
  const MutableArray pixels = images.reset(DType::uint8, {count, 8, 4, 3});
  const std::size_t bytes = pixels.bytes() / static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < pixels.bytes(); ++i) pixels.data[i] = std::byte(i / bytes);
  std::vector<ArrayField> fields(1);
  fields[0] = {"image", FieldKind::image, std::move(images), 0};
  if (labels.empty()) return tensor_dataset(std::move(fields));
  std::copy(labels.begin(), labels.end(), numbers.reset(DType::int64, {count}).as<std::int64_t>());
  fields.push_back({"label", FieldKind::label, std::move(numbers), 0});
  return tensor_dataset(std::move(fields));
}

ContactSheetPixels sheet_of(const Dataset& dataset, ContactSheetOptions options) {
  options.cell = kContactCell;
  return ContactSheetPixels(contact_sheet(dataset, inspect(dataset), options));
}

/// Which samples a sheet of 8 x 4 images shows.
std::vector<int> shown(const ContactSheetPixels& sheet, std::int64_t height) {
  std::vector<int> numbers;
  for (std::int64_t row = 0; row < sheet.shape()[0] / height; ++row)
    for (std::int64_t column = 0; column < sheet.shape()[1] / kContactCell; ++column)
      if (const Rgb level = sheet.cell(row, column, height); level != kWhite)
        numbers.push_back(level[0]);
  return numbers;
}

TEST(ContactSheet, IsSpreadOverTheDataWithoutClasses) {
  const ContactSheetPixels sheet = sheet_of(*images_of(12), {.images = 4});
  EXPECT_EQ(sheet.shape(), (Shape{2 * kContactCell, 2 * kContactCell, 3}));
  EXPECT_THAT(shown(sheet, kContactCell), ElementsAre(0, 3, 6, 9));
  EXPECT_EQ(sheet_of(*images_of(3), {}).shape(), (Shape{2 * kContactCell, 2 * kContactCell, 3}));
}

TEST(ContactSheet, HasImagesInTheirProportionsOnTheBackground) {
  const Rgb green = {0, 200, 0};
  const ContactSheetPixels sheet = sheet_of(*images_of(1), {.background = green});
  EXPECT_EQ(sheet.cell(0, 0, kContactCell), kBlackInk);
  EXPECT_EQ(sheet.at(kContactCell / 2, 2), green);
  EXPECT_EQ(sheet.at(3, kContactCell / 2), kBlackInk);
  EXPECT_EQ(sheet.at(0, kContactCell / 2), green);
}

constexpr std::int64_t kWithCaption = kContactCell + 11;

TEST(ContactSheet, IsSpreadOverTheClasses) {
  // Of 12 samples nine are of the first class, which would fill a sheet of the first six.
  const auto dataset = images_of(12, {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2});
  const ContactSheetPixels sheet = sheet_of(*dataset, {.images = 6});
  EXPECT_EQ(sheet.shape(), (Shape{2 * kWithCaption, 3 * kContactCell, 3}));
  EXPECT_THAT(shown(sheet, kWithCaption), ElementsAre(0, 3, 6, 9, 10, 11));
}

TEST(ContactSheet, HasAnImageOfSomeWhereThereAreMoreClasses) {
  const auto dataset = images_of(8, {7, 6, 5, 4, 3, 2, 1, 0});
  EXPECT_THAT(shown(sheet_of(*dataset, {.images = 4}), kWithCaption), ElementsAre(7, 5, 3, 1));
}

TEST(ContactSheet, NamesTheClassUnderEachImage) {
  const auto dataset = images_of(2, {0, 1});
  for (const auto& [background, ink] : {std::pair(kWhite, kBlackInk), {Rgb{0, 0, 90}, kWhite}}) {
    const ContactSheetPixels sheet = sheet_of(*dataset, {.background = background});
    EXPECT_TRUE(sheet.has(ink, kContactCell, kTextHeight));
    EXPECT_FALSE(
        sheet.has(ink, kContactCell + kTextHeight, kWithCaption - kContactCell - kTextHeight));
  }
}

using FilesTest = FolderTest;

TEST_F(FilesTest, TransparentPixelsShowTheBackground) {
  write_image("a/1.png", "rgba.png");
  const auto dataset = image_folder(folder_.path());
  EXPECT_NE(contact_sheet(*dataset, inspect(*dataset)),
            contact_sheet(*dataset, inspect(*dataset), {.background = kBlackInk}));
  HostArray over_white, over_black;
  decode_rgb(image_record("rgba.png").file, {.background = kWhite}, over_white);
  decode_rgb(image_record("rgba.png").file, {}, over_black);
  EXPECT_NE(levels_of(over_white), levels_of(over_black));
}

TEST_F(FilesTest, BadSamplesAreLeftOut) {
  write_image("a/1.jpg");
  write_image("a/2.jpg");
  write_image("b/1.jpg");
  std::filesystem::resize_file(folder_.path() / "a/1.jpg", 100);
  const auto dataset = image_folder(folder_.path());
  EXPECT_EQ(sheet_of(*dataset, {}).shape()[1], 2 * kContactCell);
  for (const char* name : {"a/2.jpg", "b/1.jpg"})
    std::filesystem::resize_file(folder_.path() / name, 100);
  EXPECT_THAT(thrown_by([&] { contact_sheet(*dataset, inspect(*dataset)); }),
              testing::StartsWith("Error: there is no image of 8-bit RGB"));
}

TEST(ContactSheet, PassesOverImagesWithoutPixels) {
  HostArray none;
  none.reset(DType::uint8, {2, 0, 0, 3});
  const auto dataset = tensor_dataset({{"image", FieldKind::image, none, 0}});
  EXPECT_THROW(contact_sheet(*dataset, inspect(*dataset)), Error);
}

/// As '#' and '.', a line each, without the rows at the end that are empty.
std::string drawn(const std::string& text, std::int64_t width) {
  HostArray pixels;
  const MutableArray image = pixels.reset(DType::uint8, {kTextHeight, width, 3});
  std::fill_n(image.data, image.bytes(), std::byte{0});
  draw_text(text, {0, 0, width}, kWhite, image);
  std::string lines, line;
  for (std::int64_t i = 0; i < kTextHeight * width; ++i) {
    line += image.data[3 * i] == std::byte{255} ? '#' : '.';
    if (i % width == width - 1) lines += std::exchange(line, "") + "\n";
  }
  return lines;
}

TEST(DrawText, DrawsCharactersInTheMiddle) {
  EXPECT_EQ(drawn("Lg", 13),
            ".#...........\n"
            ".#...........\n"
            ".#......####.\n"
            ".#.....#...#.\n"
            ".#.....#...#.\n"
            ".#......####.\n"
            ".#####.....#.\n"
            "........###..\n");
}

TEST(DrawText, CutsWhatDoesNotFitAndEscapesWhatItDoesNotKnow) {
  EXPECT_EQ(drawn("abcdef", 23), drawn("ab..", 23));
  EXPECT_EQ(drawn("d\u00f6g", 50), drawn("d\\u00f6g", 50));
  EXPECT_EQ(drawn("\u4e2d", 40), drawn("\\u4e2d", 40));
  EXPECT_EQ(drawn("\U0001f600", 50), drawn("\\u01f600", 50));
  EXPECT_THAT(drawn("abc", 4), testing::Not(testing::HasSubstr("#")));
}

TEST(DrawText, NoTwoCharactersLookAlike) {
  std::vector<std::string> all;
  for (char each = ' '; each <= '~'; ++each) all.push_back(drawn(std::string(1, each), 5));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

}  // namespace
}  // namespace slipstream
