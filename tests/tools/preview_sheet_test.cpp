#include "tools/preview_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "support/array_values.h"
#include "support/thrown.h"
#include "tools/sheet_values.h"

namespace slipstream {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kSide = 8;

/// Gray images with these labels or, with `masks`, with masks of these classes. Without labels:
/// three images.
std::shared_ptr<const Dataset> images_with(const std::vector<std::int64_t>& labels, bool masks) {
  const auto count = static_cast<std::int64_t>(labels.empty() ? 3 : labels.size());
  std::vector<ArrayField> fields(1);
  fields[0] = gray_images(count);
  if (labels.empty()) return tensor_dataset(std::move(fields));
  HostArray numbers;
  const MutableArray out =
      numbers.reset(DType::int64, masks ? Shape{count, kSide, kSide} : Shape{count});
  const std::size_t each = out.shape.elements() / labels.size();
  for (std::size_t i = 0; i < out.shape.elements(); ++i)
    out.as<std::int64_t>()[i] = labels[i / each];
  fields.push_back(
      {"label", masks ? FieldKind::mask : FieldKind::label, std::move(numbers), masks ? 256 : 0});
  return tensor_dataset(std::move(fields));
}

std::vector<Prediction> classes(const std::vector<std::int64_t>& numbers) {
  std::vector<Prediction> predictions;
  for (const std::int64_t number : numbers) predictions.push_back({{{number, 0.75F}}, {}});
  return predictions;
}

std::vector<Prediction> masks(const std::vector<std::uint8_t>& numbers) {
  std::vector<Prediction> predictions(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const MutableArray mask = predictions[i].mask.reset(DType::uint8, {kSide, kSide});
    std::fill_n(mask.data, mask.bytes(), std::byte{numbers[i]});
  }
  return predictions;
}

Sheet preview(const std::shared_ptr<const Dataset>& samples,
              const std::vector<Prediction>& predictions, const std::vector<NamedOp>& chain = {}) {
  return PreviewSheet(samples, chain, {.cell = kSide + 2 * kTileBorder}).sheet(predictions);
}

Rgb color(const Tile& tile) {
  const std::uint8_t* const pixel = tile.pixels.view().as<std::uint8_t>();
  return {pixel[0], pixel[1], pixel[2]};
}

TEST(PreviewSheet, ClassTilesShowPredictionAndMarkWrongOnes) {
  const Sheet sheet = preview(images_with({3, 1}, false), classes({3, 2}));
  EXPECT_EQ(numbers_on(sheet), (std::vector{0, 1}));
  EXPECT_EQ(sheet.columns, 2U);
  EXPECT_THAT(sheet.tiles[0].captions, ElementsAre("3 0.75", "label 3"));
  EXPECT_THAT(sheet.tiles[1].captions, ElementsAre("2 0.75", "label 1"));
  EXPECT_FALSE(sheet.tiles[0].is_marked);
  EXPECT_TRUE(sheet.tiles[1].is_marked);
  const std::vector<std::int64_t> five = {0, 1, 2, 3, 4};
  EXPECT_EQ(preview(images_with(five, false), classes(five)).columns, 4U);
}

TEST(PreviewSheet, MaskRowsShowImagePredictionAndLabel) {
  const Sheet sheet = preview(images_with({1, 200}, true), masks({2, 200}));
  EXPECT_EQ(sheet.columns, 3U);
  ASSERT_EQ(sheet.tiles.size(), 6U);
  EXPECT_EQ(color(sheet.tiles[3]), (Rgb{10, 10, 10}));
  for (const auto& [tile, number] : {std::pair(1, 2), {2, 1}, {4, 200}, {5, 200}})
    EXPECT_EQ(color(sheet.tiles[static_cast<std::size_t>(tile)]),
              class_color(static_cast<std::uint8_t>(number)));
  EXPECT_THAT(sheet.tiles[3].captions, ElementsAre("sample 1"));
  EXPECT_THAT(sheet.tiles[4].captions, ElementsAre("prediction"));
  EXPECT_THAT(sheet.tiles[5].captions, ElementsAre("label"));
}

TEST(PreviewSheet, WithoutLabelsOnlyPredictionsAreShown) {
  const auto images = images_with({}, false);
  EXPECT_EQ(preview(images, masks({0, 1, 2})).columns, 2U);
  const Sheet sheet = preview(images, classes({0, 1, 2}));
  EXPECT_THAT(sheet.tiles[2].captions, ElementsAre("2 0.75"));
  EXPECT_FALSE(sheet.tiles[2].is_marked);
}

TEST(PreviewSheet, TransformedImagesAreShownWithNormalizationUndone) {
  const std::vector<NamedOp> chain = {{"resize", Resize{{kSide / 2, kSide}}},
                                      {"normalize", Normalize{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.1}}}};
  const Sheet sheet = preview(images_with({0, 0}, false), classes({0, 0}), chain);
  EXPECT_EQ(color(sheet.tiles[1]), (Rgb{10, 10, 10}));
  EXPECT_EQ(sheet.tiles[1].pixels.view().shape, (Shape{kSide / 2, kSide, 3}));
}

TEST(PreviewSheet, DatasetWithoutImagesIsRefused) {
  const auto values = tensor_dataset(
      {{"values", FieldKind::other, counting<std::uint8_t>(DType::uint8, {2, 4, 4, 3}), 0}});
  EXPECT_THAT(thrown_by([&] { PreviewSheet(values, {}); }),
              testing::StartsWith("Refused: the data set has no images"));
}

}  // namespace
}  // namespace slipstream
