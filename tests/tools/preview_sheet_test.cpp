#include "tools/preview_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "slipstream/datasets/datasets.h"
#include "slipstream/ops/resize.h"
#include "slipstream/ops/transforms.h"
#include "support/array_values.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::StartsWith;

constexpr std::int64_t kSide = 8;
constexpr std::int64_t kCell = kSide + 8;  // so that images of kSide are shown as they are
constexpr std::int64_t kLine = 11;
constexpr Rgb kRed = {255, 0, 0}, kBlack = {0, 0, 0};

/// Gray images whose level is 10 times their number, as classes or, with `masks`, with the class of
/// each pixel. No labels: images alone.
std::shared_ptr<const Dataset> images_with(const std::vector<std::int64_t>& labels, bool masks,
                                           std::int64_t count) {
  HostArray images, numbers;
  const MutableArray pixels = images.reset(DType::uint8, {count, kSide, kSide, 3});
  const std::size_t bytes = pixels.bytes() / static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < pixels.bytes(); ++i) pixels.data[i] = std::byte(i / bytes * 10);
  std::vector<ArrayField> fields(1);
  fields[0] = {"image", FieldKind::image, std::move(images), 0};
  if (labels.empty()) return tensor_dataset(std::move(fields));
  const Shape shape = masks ? Shape{count, kSide, kSide} : Shape{count};
  const MutableArray out = numbers.reset(DType::int64, shape);
  const std::size_t each = shape.elements() / static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < shape.elements(); ++i) out.as<std::int64_t>()[i] = labels[i / each];
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

/// Decoded, to be looked into.
class Sheet {
 public:
  Sheet(const std::shared_ptr<const Dataset>& samples, const std::vector<NamedOp>& chain,
        const std::vector<Prediction>& predictions) {
    PreviewSheetOptions options;
    options.cell = kCell;
    decode_rgb(PreviewSheet(samples, chain, options).png(predictions), {}, pixels_);
  }
  Shape shape() const { return pixels_.view().shape; }
  Rgb at(std::int64_t y, std::int64_t x) const {
    const std::uint8_t* const pixel = pixels_.view().as<std::uint8_t>() + (y * shape()[1] + x) * 3;
    return {pixel[0], pixel[1], pixel[2]};
  }
  /// In the middle of a cell, in rows with so many captions.
  Rgb cell(std::int64_t row, std::int64_t column, std::int64_t lines) const {
    return at(row * (kCell + lines * kLine) + kCell / 2, column * kCell + kCell / 2);
  }
  /// Whether any pixel of a line of captions has that color.
  bool has(const Rgb& color, std::int64_t column, std::int64_t line) const {
    for (std::int64_t y = kCell + line * kLine; y < kCell + (line + 1) * kLine; ++y)
      for (std::int64_t x = column * kCell; x < (column + 1) * kCell; ++x)
        if (at(y, x) == color) return true;
    return false;
  }

 private:
  HostArray pixels_;
};

TEST(PreviewSheet, AClassHasATileWithThePredictionAndTheLabelInRedWhereTheyDiffer) {
  const Sheet sheet(images_with({3, 1}, false, 2), {}, classes({3, 2}));
  EXPECT_EQ(sheet.shape(), (Shape{kCell + 2 * kLine, 2 * kCell, 3}));
  EXPECT_EQ(sheet.cell(0, 1, 2), (Rgb{10, 10, 10}));
  for (const std::int64_t line : {0, 1}) {
    EXPECT_TRUE(sheet.has(kBlack, 0, line));
    EXPECT_FALSE(sheet.has(kRed, 0, line));
    EXPECT_TRUE(sheet.has(kRed, 1, line));
    EXPECT_FALSE(sheet.has(kBlack, 1, line));
  }
}

TEST(PreviewSheet, ClassesAreInRowsOfFour) {
  const std::vector<std::int64_t> labels = {0, 1, 2, 3, 4};
  const Sheet sheet(images_with(labels, false, 5), {}, classes(labels));
  EXPECT_EQ(sheet.shape(), (Shape{2 * (kCell + 2 * kLine), 4 * kCell, 3}));
  EXPECT_EQ(sheet.cell(1, 0, 2), (Rgb{40, 40, 40}));
}

TEST(PreviewSheet, AMaskHasARowOfImagePredictionAndLabelInColorsOfClasses) {
  const Sheet sheet(images_with({1, 200}, true, 2), {}, masks({2, 200}));
  EXPECT_EQ(sheet.shape(), (Shape{2 * (kCell + kLine), 3 * kCell, 3}));
  EXPECT_EQ(sheet.cell(1, 0, 1), (Rgb{10, 10, 10}));
  EXPECT_EQ(sheet.cell(0, 1, 1), color_of_class(2));
  EXPECT_EQ(sheet.cell(0, 2, 1), color_of_class(1));
  EXPECT_EQ(sheet.cell(1, 1, 1), color_of_class(200));
  EXPECT_EQ(sheet.cell(1, 2, 1), color_of_class(200));
}

TEST(PreviewSheet, ShowsNoLabelsWhereThereAreNone) {
  const auto images = images_with({}, false, 3);
  EXPECT_EQ(Sheet(images, {}, masks({0, 1, 2})).shape(),
            (Shape{3 * (kCell + kLine), 2 * kCell, 3}));
  const Sheet sheet(images, {}, classes({0, 1, 2}));
  EXPECT_EQ(sheet.shape(), (Shape{kCell + kLine, 3 * kCell, 3}));
  EXPECT_FALSE(sheet.has(kRed, 0, 0));
}

TEST(PreviewSheet, ShowsImagesAsTheModelSeesThemBroughtBackToLevels) {
  const std::vector<NamedOp> chain = {{"resize", Resize{{kSide / 2, kSide}}},
                                      {"normalize", Normalize{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.1}}}};
  const Sheet sheet(images_with({0, 0}, false, 2), chain, classes({0, 0}));
  EXPECT_EQ(sheet.cell(0, 1, 2), (Rgb{10, 10, 10}));
  EXPECT_EQ(sheet.at(5, kCell + kCell / 2), (Rgb{255, 255, 255}));  // it is half as high as wide
}

TEST(PreviewSheet, ColorsOfClassesAreDistinctAndThoseOfPascalVoc) {
  std::set<Rgb> colors;
  for (int number = 0; number < 256; ++number)
    colors.insert(color_of_class(static_cast<std::uint8_t>(number)));
  EXPECT_EQ(colors.size(), 256U);
  EXPECT_EQ(color_of_class(0), kBlack);
  EXPECT_EQ(color_of_class(1), (Rgb{128, 0, 0}));
  EXPECT_EQ(color_of_class(15), (Rgb{192, 128, 128}));
  EXPECT_EQ(color_of_class(255), (Rgb{224, 224, 192}));
}

TEST(PreviewSheet, DataWithoutImagesAreRefused) {
  const auto values = tensor_dataset(
      {{"values", FieldKind::other, counting<std::uint8_t>(DType::uint8, {2, 4, 4, 3}), 0}});
  EXPECT_THAT(thrown_by([&] { PreviewSheet(values, {}); }),
              StartsWith("Refused: the data set has no images"));
}

}  // namespace
}  // namespace slipstream
