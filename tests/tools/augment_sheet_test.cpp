#include "tools/augment_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "loader/sampler.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/loader/data_loader.h"
#include "slipstream/ops/color.h"
#include "slipstream/ops/resize.h"
#include "slipstream/ops/transforms.h"
#include "slipstream/ops/warp.h"
#include "support/array_values.h"
#include "support/made_set.h"
#include "support/own_op.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "tools/make_data.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kSamples = 9;
constexpr std::int64_t kAugmentSide = 32;
constexpr std::int64_t kAugmentCell =
    kAugmentSide + 8;  // so that images of kAugmentSide are shown as they are

/// Sets every value of an image to one, as floats.
struct SetTo : OwnOp {
  static constexpr std::string_view kName = "set_to";
  float value = 0;

  FieldSpec output(const FieldSpec& in) const {
    return {in.name, in.kind, DType::float32, in.shape, 0};
  }
  void apply(Drawn, FieldKind, ConstArray, MutableArray out, Scratch&) const {
    std::fill_n(out.as<float>(), out.shape.elements(), value);
  }
};

/// Its images are not what a sheet can show.
struct ToClasses : SetTo {
  static constexpr std::string_view kName = "to_classes";
  FieldSpec output(const FieldSpec& in) const {
    return {in.name, in.kind, DType::int64, in.shape, 0};
  }
};

/// Float images of 0.5, of three channels as declared; that of sample 1 has no such dimension.
std::shared_ptr<const Dataset> float_images() {
  return made_set(2, {{"image", FieldKind::image, DType::float32, {-1, -1, 3}, 0}},
                  [](std::size_t index, Sample& out) {
                    const Shape shape = index == 1 ? Shape{kAugmentSide, kAugmentSide}
                                                   : Shape{kAugmentSide, kAugmentSide, 3};
                    const MutableArray image = out.fields[0].array.reset(DType::float32, shape);
                    std::fill_n(image.as<float>(), shape.elements(), 0.5F);
                  });
}

std::vector<NamedOp> random_chain() {
  return {{"crop", RandomResizedCrop{kAugmentSide}},
          {"flip", RandomHorizontalFlip{}},
          {"turn", RandomRotation{.degrees = {-30, 30}}}};
}

class AugmentSheetTest : public testing::Test {
 protected:
  void SetUp() override {
    MakeDataOptions options;
    options.samples = kSamples;
    options.sizes = {kAugmentSide, 2 * kAugmentSide};
    make_segmentation_data(folder_.path(), options);
  }

  std::shared_ptr<const Dataset> scenes(std::int64_t classes = 10) const {
    return segmentation_folder(folder_.path(), classes);
  }
  void damage(std::size_t sample) const {
    fs::resize_file(folder_.path() / "images" / ("00000" + std::to_string(sample) + ".jpg"), 200);
  }

  TemporaryFolder folder_;
};

AugmentSheetOptions small() {
  return {.samples = 4, .versions = 2, .seed = 5, .epoch = 3, .cell = kAugmentCell};
}

HostArray pixels_of(const AugmentSheet& sheet) {
  HostArray pixels;
  decode_rgb(sheet.png, {}, pixels);
  return pixels;
}

/// `height` x `width` pixels around the middle of a cell.
Bytes middle(const ConstArray& sheet, std::int64_t row, std::int64_t column, std::int64_t height,
             std::int64_t width) {
  Bytes found;
  for (std::int64_t y = 0; y < height; ++y) {
    const std::int64_t top = row * kAugmentCell + (kAugmentCell - height) / 2 + y;
    const std::int64_t left = column * kAugmentCell + (kAugmentCell - width) / 2;
    const std::byte* from = sheet.data + (top * sheet.shape[1] + left) * 3;
    found.insert(found.end(), from, from + width * 3);
  }
  return found;
}

Bytes cell(const ConstArray& sheet, std::int64_t row, std::int64_t column) {
  return middle(sheet, row, column, kAugmentSide, kAugmentSide);
}

/// The image of `sample` in a batch of `epoch`, as a loader of this seed makes it.
Bytes loaded(const std::shared_ptr<const Dataset>& dataset, std::uint64_t seed, std::uint32_t epoch,
             std::uint64_t sample) {
  DataLoaderOptions options;
  options.seed = seed;
  options.first_batch = epoch * kSamples;
  DataLoader loader(dataset, random_chain(), options);
  const Sampler order(kSamples, true, seed);
  for (std::size_t i = 0; i < kSamples; ++i) {
    const HostBatch batch = loader.next();
    if (order.at(epoch, i) == sample) {
      const SlabField& image = loader.layout().field("image");
      const std::byte* from = batch.data + image.offset_bytes;
      return {from, from + image.sample_bytes};
    }
    loader.release(batch, nullptr);
  }
  return {};
}

TEST_F(AugmentSheetTest, RowsAreTheFirstSamplesOfTheEpoch) {
  const AugmentSheet sheet = augment_sheet(scenes(), random_chain(), small());
  EXPECT_EQ(image_shape(sheet.png), (Shape{4 * kAugmentCell, 3 * kAugmentCell, 3}));
  const Sampler order(kSamples, true, 5);
  ASSERT_EQ(sheet.samples.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sheet.samples[i], order.at(3, i));
}

TEST_F(AugmentSheetTest, OriginalsAreInTheFirstColumnScaledToTheirTiles) {
  const AugmentSheet sheet = augment_sheet(scenes(), random_chain(), small());
  const HostArray pixels = pixels_of(sheet);
  for (std::size_t i = 0; i < sheet.samples.size(); ++i) {
    HostArray file, image, tile;
    Scratch scratch;
    const std::string name = "00000" + std::to_string(sheet.samples[i]) + ".jpg";
    read_file(folder_.path() / "images" / name, file);
    decode_rgb(bytes_of(file.view()), {}, image);
    Resize{{kAugmentSide, kAugmentSide}}.apply(
        {}, FieldKind::image, image.view(),
        tile.reset(DType::uint8, {kAugmentSide, kAugmentSide, 3}), scratch);
    const auto wanted = bytes_of(tile.view());
    EXPECT_EQ(cell(pixels.view(), static_cast<std::int64_t>(i), 0),
              Bytes(wanted.begin(), wanted.end()));
  }
}

TEST_F(AugmentSheetTest, VersionsHaveTheBitsThatALoaderMakesInThatEpoch) {
  const AugmentSheet sheet = augment_sheet(scenes(), random_chain(), small());
  const HostArray pixels = pixels_of(sheet);
  for (std::uint32_t row = 0; row < 4; ++row)
    for (std::uint32_t version = 0; version < 2; ++version)
      EXPECT_EQ(cell(pixels.view(), row, version + 1),
                loaded(scenes(), 5, 3 + version, sheet.samples[row]))
          << "row " << row << ", version " << version;
}

TEST_F(AugmentSheetTest, BytesDependOnTheSeedAndTheEpochAlone) {
  const auto png = [&](std::uint64_t seed, std::uint32_t epoch) {
    AugmentSheetOptions options = small();
    options.seed = seed;
    options.epoch = epoch;
    return augment_sheet(scenes(), random_chain(), options).png;
  };
  EXPECT_EQ(png(5, 3), png(5, 3));
  EXPECT_NE(png(5, 3), png(6, 3));
  EXPECT_NE(png(5, 3), png(5, 4));
}

TEST_F(AugmentSheetTest, BordersAreWhiteAndProportionsKept) {
  const AugmentSheet sheet =
      augment_sheet(scenes(), {{"narrow", Resize{{kAugmentSide, 8}}}, {"black", SetTo{}}}, small());
  const HostArray pixels = pixels_of(sheet);
  EXPECT_THAT(middle(pixels.view(), 1, 2, kAugmentSide, 8), Each(std::byte{0}));
  const Bytes whole = middle(pixels.view(), 1, 2, kAugmentCell, kAugmentCell);
  EXPECT_EQ(std::count(whole.begin(), whole.end(), std::byte{0}), kAugmentSide * 8 * 3);
  EXPECT_EQ(std::count(whole.begin(), whole.end(), std::byte{255}),
            (kAugmentCell * kAugmentCell - kAugmentSide * 8) * 3);
}

TEST_F(AugmentSheetTest, FloatVersionsAreShownAsLevels) {
  const NamedOp resize = {"resize", Resize{{kAugmentSide, kAugmentSide}}};
  const NamedOp normalize = {"normalize", Normalize{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.1}}};
  EXPECT_EQ(augment_sheet(scenes(), {resize, normalize}, small()).png,
            augment_sheet(scenes(), {resize}, small()).png);
}

TEST_F(AugmentSheetTest, FloatOriginalsAreShownFrom0To1WhateverTheChain) {
  AugmentSheetOptions options = small();
  options.on_bad_sample = OnBadSample::skip;
  const std::vector<NamedOp> chain = {{"resize", Resize{{kAugmentSide, kAugmentSide}}},
                                      {"divide", Divide{5}}};
  const HostArray pixels = pixels_of(augment_sheet(float_images(), chain, options));
  EXPECT_THAT(cell(pixels.view(), 0, 0), Each(std::byte{128}));
  EXPECT_THAT(cell(pixels.view(), 0, 1), Each(std::byte{128}));
}

TEST_F(AugmentSheetTest, ABadSampleStopsOrIsLeftOut) {
  const auto good = augment_sheet(scenes(), random_chain(), small()).samples;
  damage(good[1]);
  EXPECT_THAT(thrown_by([&] { augment_sheet(scenes(), random_chain(), small()); }),
              AllOf(StartsWith("Error: step 'decode'"),
                    HasSubstr("00000" + std::to_string(good[1]) + ".jpg")));
  AugmentSheetOptions options = small();
  options.on_bad_sample = OnBadSample::skip;
  const AugmentSheet sheet = augment_sheet(scenes(), random_chain(), options);
  const Sampler order(kSamples, true, 5);
  EXPECT_THAT(sheet.samples, ElementsAre(good[0], good[2], good[3], order.at(3, 4)));
  ASSERT_EQ(sheet.skipped.size(), 1U);
  EXPECT_EQ(sheet.skipped[0].sample, good[1]);
  EXPECT_THAT(sheet.skipped[0].message, HasSubstr("step 'decode'"));
  EXPECT_EQ(cell(pixels_of(sheet).view(), 3, 2), loaded(scenes(), 5, 4, sheet.samples[3]));
}

TEST_F(AugmentSheetTest, WhatDoesNotFitTheChainOrABatchIsBadToo) {
  AugmentSheetOptions options = small();
  options.samples = kSamples;
  options.on_bad_sample = OnBadSample::skip;
  const AugmentSheet sheet =
      augment_sheet(scenes(), {{"crop", CenterCrop{2 * kAugmentSide}}}, options);
  EXPECT_FALSE(sheet.samples.empty());
  EXPECT_EQ(sheet.samples.size() + sheet.skipped.size(), kSamples);
  ASSERT_FALSE(sheet.skipped.empty());
  EXPECT_THAT(sheet.skipped[0].message, HasSubstr("step 'crop'"));
  EXPECT_EQ(image_shape(sheet.png)[0],
            static_cast<std::int64_t>(sheet.samples.size()) * kAugmentCell);
  EXPECT_THAT(thrown_by([&] { augment_sheet(scenes(1), random_chain(), options); }),
              AllOf(StartsWith("Error: all 9 samples are bad; the first: step 'collate'"),
                    HasSubstr("holds class")));
}

TEST_F(AugmentSheetTest, AnImageOfAnotherFormThanDeclaredIsBad) {
  const auto dataset = float_images();
  EXPECT_THAT(
      thrown_by([&] { augment_sheet(dataset, random_chain(), small()); }),
      StartsWith("Error: sample 1: its image is float32 of 32 x 32, which cannot be shown"));
  AugmentSheetOptions options = small();
  options.on_bad_sample = OnBadSample::skip;
  EXPECT_THAT(augment_sheet(dataset, random_chain(), options).samples, ElementsAre(0));
}

TEST_F(AugmentSheetTest, ThereAreNoMoreRowsThanSamples) {
  AugmentSheetOptions options = small();
  options.samples = 1000000;
  EXPECT_EQ(augment_sheet(scenes(), random_chain(), options).samples.size(), kSamples);
}

TEST_F(AugmentSheetTest, AStopLeavesNoSheet) {
  AugmentSheetOptions options = small();
  int asked = 0;
  options.stop = [&] { return ++asked > 2; };
  const AugmentSheet sheet = augment_sheet(scenes(), random_chain(), options);
  EXPECT_EQ(sheet.samples.size(), 2U);
  EXPECT_TRUE(sheet.png.empty());
}

TEST_F(AugmentSheetTest, WhatALoaderRefusesIsRefused) {
  const auto refusal = [&](const std::vector<NamedOp>& chain) {
    return thrown_by([&] { augment_sheet(scenes(), chain, small()); });
  };
  EXPECT_THAT(refusal({{"flip", RandomHorizontalFlip{}}}),
              AllOf(StartsWith("Refused: "), HasSubstr("add resize")));
  EXPECT_THAT(refusal({{"resize", Resize{{kAugmentSide, kAugmentSide}}},
                       {"floats", ToDtype{.scale = true}},
                       {"more", ToDtype{DType::int64}}}),
              StartsWith("Refused: transform 'more': "));
  const auto empty = tensor_dataset(
      {{"image", FieldKind::image,
        counting<std::uint8_t>(DType::uint8, {0, kAugmentSide, kAugmentSide, 3}), 0}});
  EXPECT_EQ(thrown_by([&] { augment_sheet(empty, {}, small()); }),
            "Refused: the data set is empty");
}

TEST_F(AugmentSheetTest, OptionsThatMakeNoSenseAreRefusedTogether) {
  const auto refusal = [&](const AugmentSheetOptions& options) {
    return thrown_by([&] { augment_sheet(scenes(), random_chain(), options); });
  };
  EXPECT_THAT(refusal({.samples = 0, .versions = 0, .cell = 15}),
              AllOf(StartsWith("Refused: 0 samples"), HasSubstr("0 versions"),
                    HasSubstr("cells of 15 pixels: give 16 to 4096")));
  EXPECT_THAT(refusal({.cell = 4097}), StartsWith("Refused: cells of 4097"));
  EXPECT_THAT(refusal({.samples = 9, .versions = 1, .cell = 4096}),
              StartsWith("Refused: 9 samples of 1 version make a sheet of more than 10 tiles"));
  const auto at_once = [] { return true; };
  EXPECT_EQ(refusal({.samples = 5, .versions = 1, .cell = 4096, .stop = at_once}), "nothing");
  EXPECT_THAT(refusal({.versions = std::numeric_limits<std::size_t>::max()}),
              StartsWith("Refused: 8 samples of 18446744073709551615 versions"));
  constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();
  EXPECT_THAT(refusal({.versions = 3, .epoch = kLast - 1, .cell = kAugmentCell}),
              StartsWith("Refused: the last version would be that of an epoch above 4294967295"));
  EXPECT_EQ(refusal({.versions = 2, .epoch = kLast - 1, .cell = kAugmentCell}), "nothing");
}

TEST_F(AugmentSheetTest, AnImageIsNeededThatCanBeShown) {
  const auto refusal = [&](FieldKind kind, DType dtype, const Shape& shape) {
    const auto dataset =
        tensor_dataset({{"label", FieldKind::label, counting<std::int64_t>(DType::int64, {1}), 0},
                        {"values", kind, counting<std::uint8_t>(dtype, shape), 0}});
    return thrown_by([&] { augment_sheet(dataset, {}, small()); });
  };
  EXPECT_THAT(refusal(FieldKind::other, DType::uint8, {1, 4, 4, 3}),
              StartsWith("Refused: the data set has no images"));
  EXPECT_THAT(refusal(FieldKind::image, DType::uint8, {1, 4, 0, 3}),
              StartsWith("Refused: images cannot be shown: field 'values' is uint8 of 4 x 0 x 3"));
  EXPECT_THAT(thrown_by([&] {
                augment_sheet(
                    scenes(),
                    {{"resize", Resize{{kAugmentSide, kAugmentSide}}}, {"classes", ToClasses{}}},
                    small());
              }),
              StartsWith("Refused: images cannot be shown: field 'image' is int64 of 32 x 32 x 3 "
                         "after the transforms"));
}

/// A gray image with the box x 4 to 12, y 8 to 24, and a row that is none.
std::shared_ptr<const Dataset> boxed_image() {
  return made_set(
      1,
      {{"image", FieldKind::image, DType::uint8, {kAugmentSide, kAugmentSide, 3}, 0},
       {"boxes", FieldKind::boxes, DType::float32, {2, 4}, 0}},
      [](std::size_t, Sample& out) {
        const MutableArray image =
            out.fields[0].array.reset(DType::uint8, {kAugmentSide, kAugmentSide, 3});
        std::fill_n(image.data, image.bytes(), std::byte{128});
        const float boxes[] = {4, 8, 12, 24, 0, 0, 0, 0};
        std::copy_n(boxes, 8, out.fields[1].array.reset(DType::float32, {2, 4}).as<float>());
      });
}

TEST(AugmentSheet, OutlinesBoxes) {
  AugmentSheetOptions options{.samples = 1, .versions = 1, .cell = kAugmentCell};
  const AugmentSheet sheet =
      augment_sheet(boxed_image(), {{"flip", RandomHorizontalFlip{1}}}, options);
  const HostArray pixels = pixels_of(sheet);
  const auto is_red = [&](std::int64_t column, std::int64_t y, std::int64_t x) {
    const Bytes image = cell(pixels.view(), 0, column);
    const std::byte* const pixel = image.data() + (y * kAugmentSide + x) * 3;
    return pixel[0] == std::byte{255} && pixel[1] == std::byte{0} && pixel[2] == std::byte{0};
  };
  for (const auto& [column, left, right] : {std::tuple{0, 4, 11}, std::tuple{1, 20, 27}}) {
    for (std::int64_t y = 0; y < kAugmentSide; ++y)
      for (std::int64_t x = 0; x < kAugmentSide; ++x) {
        const bool is_in = y >= 8 && y <= 23 && x >= left && x <= right;
        const bool is_edge = is_in && (y == 8 || y == 23 || x == left || x == right);
        EXPECT_EQ(is_red(column, y, x), is_edge) << column << ": " << y << ", " << x;
      }
  }
}

}  // namespace
}  // namespace slipstream
