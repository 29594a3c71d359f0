#include "tools/sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "support/thrown.h"
#include "tools/sheet_values.h"

namespace slipstream {
namespace {

constexpr Rgb kGreen = {0, 200, 0}, kMarkedRed = {255, 0, 0}, kDark = {10, 10, 10};

HostArray gray(std::int64_t height, std::int64_t width, int level = 10) {
  HostArray image;
  const MutableArray pixels = image.reset(DType::uint8, {height, width, 3});
  std::fill_n(pixels.data, pixels.bytes(), static_cast<std::byte>(level));
  return image;
}

Rgb pixel(const ConstArray& image, std::int64_t y, std::int64_t x) {
  const std::uint8_t* const found = image.as<std::uint8_t>() + (y * image.shape[1] + x) * 3;
  return {found[0], found[1], found[2]};
}

TEST(Sheet, TilesAreCenteredAndMarkedOnesFramed) {
  Sheet sheet{.columns = 2, .cell = 16, .background = kGreen};
  for (const bool is_marked : {false, true, false})
    sheet.tiles.push_back({gray(8, 4), {"not drawn"}, is_marked});
  HostArray png;
  decode_rgb(sheet_png(sheet), {}, png);
  const ConstArray image = png.view();
  ASSERT_EQ(image.shape, (Shape{32, 32, 3}));
  for (std::int64_t y = 0; y < 32; ++y)
    for (std::int64_t x = 0; x < 32; ++x) {
      const std::int64_t row = y % 16, column = x % 16;
      const bool is_empty = y >= 16 && x >= 16, is_marked = y < 16 && x >= 16;
      const bool is_tile = !is_empty && row >= 4 && row < 12 && column >= 6 && column < 10;
      const bool is_frame = is_marked && (row < 3 || row >= 13 || column < 3 || column >= 13);
      EXPECT_EQ(pixel(image, y, x), is_tile    ? kDark
                                    : is_frame ? kMarkedRed
                                               : kGreen)
          << y << ", " << x;
    }
}

TEST(Sheet, TilesKeepTheAspectRatio) {
  const struct {
    std::int64_t height, width;
    Shape tile;
  } cases[] = {
      {8, 4, {32, 16, 3}}, {4, 8, {16, 32, 3}}, {64, 64, {32, 32, 3}}, {1, 100, {1, 32, 3}}};
  for (const auto& each : cases)
    EXPECT_EQ(make_tile(gray(each.height, each.width).view(), 32).view().shape, each.tile);
  EXPECT_EQ(thrown_by([] { (void)make_tile(gray(0, 4).view(), 32); }),
            "Error: an image of 0 x 4 x 3 has no pixels");
}

TEST(Sheet, OutlinesOnlyBoxesWithArea) {
  HostArray boxes;
  const float values[] = {4, 8, 12, 24, 0, 0, 0, 0, 20, 9, 10, 30};
  std::copy_n(values, 12, boxes.reset(DType::float32, {3, 4}).as<float>());
  HostArray tile = gray(32, 32);
  outline_boxes(boxes.view(), 32, 32, tile);
  for (std::int64_t y = 0; y < 32; ++y)
    for (std::int64_t x = 0; x < 32; ++x) {
      const bool is_in = y >= 8 && y <= 23 && x >= 4 && x <= 11;
      const bool is_edge = is_in && (y == 8 || y == 23 || x == 4 || x == 11);
      EXPECT_EQ(pixel(tile.view(), y, x), is_edge ? kMarkedRed : kDark) << y << ", " << x;
    }
}

TEST(Sheet, ClassColorsMatchPascalVocAndAreDistinct) {
  std::set<Rgb> colors;
  for (int number = 0; number < 256; ++number)
    colors.insert(class_color(static_cast<std::uint8_t>(number)));
  EXPECT_EQ(colors.size(), 256U);
  EXPECT_EQ(class_color(0), (Rgb{0, 0, 0}));
  EXPECT_EQ(class_color(1), (Rgb{128, 0, 0}));
  EXPECT_EQ(class_color(15), (Rgb{192, 128, 128}));
  EXPECT_EQ(class_color(255), (Rgb{224, 224, 192}));
}

}  // namespace
}  // namespace slipstream
