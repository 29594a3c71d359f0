#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/folder_fixture.h"
#include "support/thrown.h"
#include "tools/inspect.h"
#include "tools/sheet_values.h"

namespace slipstream {
namespace {

using testing::ElementsAre;

Sheet make_contact_sheet(const Dataset& dataset, const ContactSheetOptions& options = {}) {
  return contact_sheet(dataset, inspect(dataset), options);
}

TEST(ContactSheet, SamplesAreSpreadOverClassesOrIndices) {
  const struct {
    std::vector<std::int64_t> labels;  ///< labels of 12 images; empty: images without labels
    std::size_t images;
    std::vector<int> shown;
  } cases[] = {{{}, 4, {0, 3, 6, 9}},
               // The first six samples would all be of the first class.
               {{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2}, 6, {0, 3, 6, 9, 10, 11}},
               {{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 4, {11, 8, 5, 2}},
               {{}, 64, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}};
  for (const auto& each : cases) {
    std::vector<ArrayField> fields(1);
    fields[0] = gray_images(12);
    if (!each.labels.empty()) {
      HostArray labels;
      std::ranges::copy(each.labels, labels.reset(DType::int64, {12}).as<std::int64_t>());
      fields.push_back({"label", FieldKind::label, std::move(labels), 0});
    }
    const Sheet sheet =
        make_contact_sheet(*tensor_dataset(std::move(fields)), {.images = each.images});
    EXPECT_EQ(numbers_on(sheet), each.shown);
    EXPECT_EQ(sheet.columns, each.shown.size() > 9 ? 4U : each.shown.size() > 4 ? 3U : 2U);
    for (std::size_t i = 0; i < sheet.tiles.size(); ++i) {
      const std::vector<std::string> class_only =
          each.labels.empty()
              ? std::vector<std::string>()
              : std::vector{std::to_string(each.labels[static_cast<std::size_t>(each.shown[i])])};
      EXPECT_EQ(sheet.tiles[i].captions, class_only);
    }
  }
}

using ContactSheetFilesTest = FolderTest;

TEST_F(ContactSheetFilesTest, CaptionsAreUnicodeClassNames) {
  write_image("\u732b/1.jpg");
  write_image("\u0441\u043e\u0431\u0430\u043a\u0430/1.jpg");
  const Sheet sheet = make_contact_sheet(*image_folder(folder_.path()));
  ASSERT_EQ(sheet.tiles.size(), 2U);
  EXPECT_THAT(sheet.tiles[0].captions, ElementsAre("\u0441\u043e\u0431\u0430\u043a\u0430"));
  EXPECT_THAT(sheet.tiles[1].captions, ElementsAre("\u732b"));
}

TEST_F(ContactSheetFilesTest, TransparentPixelsShowTheBackground) {
  write_image("a/1.png", "rgba.png");
  const auto dataset = image_folder(folder_.path());
  const auto shown = [&](const Rgb& background) {
    return pixels_in(make_contact_sheet(*dataset, {.background = background}).tiles[0]);
  };
  EXPECT_EQ(shown({255, 255, 255}), pixels_in(make_contact_sheet(*dataset).tiles[0]));
  EXPECT_NE(shown({255, 255, 255}), shown({0, 0, 0}));
}

TEST_F(ContactSheetFilesTest, BadSamplesAreOmittedAndAllBadThrows) {
  for (const char* name : {"a/1.jpg", "a/2.jpg", "b/1.jpg"}) write_image(name);
  const auto dataset = image_folder(folder_.path());
  std::filesystem::resize_file(folder_.path() / "a/1.jpg", 100);
  EXPECT_EQ(make_contact_sheet(*dataset).tiles.size(), 2U);
  for (const char* name : {"a/2.jpg", "b/1.jpg"})
    std::filesystem::resize_file(folder_.path() / name, 100);
  EXPECT_EQ(thrown_by([&] { make_contact_sheet(*dataset); }),
            "Error: there is no image of 8-bit RGB to put on a contact sheet");
}

TEST(ContactSheet, EmptyImagesThrowAndTooSmallCellsAreRefused) {
  HostArray none;
  none.reset(DType::uint8, {2, 0, 0, 3});
  const auto dataset = tensor_dataset({{"image", FieldKind::image, none, 0}});
  EXPECT_THROW(make_contact_sheet(*dataset), Error);
  EXPECT_THAT(thrown_by([&] { make_contact_sheet(*dataset, {.cell = 8}); }),
              testing::StartsWith("Refused: cells of 8 pixels"));
}

}  // namespace
}  // namespace slipstream
