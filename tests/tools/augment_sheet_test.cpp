#include "tools/augment_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "loader/sampler.h"
#include "slipstream/core/error.h"
#include "slipstream/loader/data_loader.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "support/array_values.h"
#include "support/made_set.h"
#include "support/own_op.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "tools/make_data.h"
#include "tools/sheet_values.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kSamples = 9;
constexpr std::int64_t kAugmentSide = 32;
// a cell in which images keep their size
constexpr std::int64_t kAugmentCell = kAugmentSide + 2 * kTileBorder;
const NamedOp kResize = {"resize", Resize{{kAugmentSide, kAugmentSide}}};

/// Converts images to a type that a sheet cannot show.
struct ToClasses : OwnOp {
  static constexpr std::string_view kName = "to_classes";
  FieldSpec output(const FieldSpec& in) const {
    return {in.name, in.kind, DType::int64, in.shape, 0};
  }
};

/// Float images of 0.5. They are declared with three channels, but sample 1 has no channel
/// dimension.
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

AugmentSheetOptions small() {
  return {.samples = 4, .versions = 2, .seed = 5, .epoch = 3, .cell = kAugmentCell};
}

AugmentSheetOptions skipping() {
  AugmentSheetOptions options = small();
  options.on_bad_sample = OnBadSample::skip;
  return options;
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
  fs::path file(std::size_t sample) const {
    return folder_.path() / "images" / ("00000" + std::to_string(sample) + ".jpg");
  }
  /// Returns the pixels of the tiles, row by row.
  std::vector<Bytes> tiles(const std::vector<NamedOp>& chain,
                           const AugmentSheetOptions& options = small()) const {
    std::vector<Bytes> all;
    for (const Tile& tile : augment_sheet(scenes(), chain, options).sheet.tiles)
      all.push_back(pixels_in(tile));
    return all;
  }
  /// Returns the error that the sheet throws, or "nothing".
  std::string thrown(const std::vector<NamedOp>& chain, const AugmentSheetOptions& options,
                     std::shared_ptr<const Dataset> dataset = nullptr) const {
    if (dataset == nullptr) dataset = scenes();
    return thrown_by([&] { augment_sheet(dataset, chain, options); });
  }

  TemporaryFolder folder_;
};

/// Returns the image of `sample` in `epoch` from a loader with this seed.
Bytes loaded(const std::shared_ptr<const Dataset>& dataset, std::uint64_t seed, std::uint32_t epoch,
             std::uint64_t sample) {
  DataLoaderOptions options{{.batch_size = 1, .seed = seed}, {}};
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

TEST_F(AugmentSheetTest, RowsShowFirstSamplesOfTheEpochAsALoaderGivesThem) {
  const AugmentSheet shown = augment_sheet(scenes(), random_chain(), small());
  const Sampler order(kSamples, true, 5);
  EXPECT_THAT(shown.samples,
              ElementsAre(order.at(3, 0), order.at(3, 1), order.at(3, 2), order.at(3, 3)));
  const Sheet& sheet = shown.sheet;
  EXPECT_EQ(sheet.columns, 3U);
  ASSERT_EQ(sheet.tiles.size(), 12U);
  for (std::size_t row = 0; row < 4; ++row) {
    const std::size_t sample = shown.samples[row];
    HostArray stored, image;
    read_file(file(sample), stored);
    decode_rgb(as_bytes(stored.view()), {}, image);
    const Tile* const tiles = &sheet.tiles[3 * row];
    EXPECT_EQ(pixels_in(tiles[0]), pixels_in(make_tile(image.view(), kAugmentSide).view()));
    EXPECT_THAT(tiles[0].captions, ElementsAre(file(sample).filename().string()));
    for (std::uint32_t version = 0; version < 2; ++version) {
      EXPECT_EQ(pixels_in(tiles[1 + version]), loaded(scenes(), 5, 3 + version, sample));
      EXPECT_THAT(tiles[1 + version].captions, ElementsAre("epoch " + std::to_string(3 + version)));
    }
  }
}

TEST_F(AugmentSheetTest, TilesDependOnSeedAndEpoch) {
  AugmentSheetOptions other_seed = small(), other_epoch = small();
  other_seed.seed = 6;
  other_epoch.epoch = 4;
  EXPECT_EQ(tiles(random_chain()), tiles(random_chain()));
  EXPECT_NE(tiles(random_chain()), tiles(random_chain(), other_seed));
  EXPECT_NE(tiles(random_chain()), tiles(random_chain(), other_epoch));
}

TEST_F(AugmentSheetTest, FloatImagesAreShownAsUint8) {
  const NamedOp normalize = {"normalize", Normalize{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.1}}};
  EXPECT_EQ(tiles({kResize, normalize}), tiles({kResize}));
  // Originals that are floats are shown in the same way for any chain.
  const AugmentSheet shown =
      augment_sheet(float_images(), {kResize, {"divide", Divide{5}}}, skipping());
  for (const std::size_t column : {0, 1})
    EXPECT_THAT(pixels_in(shown.sheet.tiles[column]), Each(std::byte{128}));
}

TEST_F(AugmentSheetTest, BadSampleThrowsOrIsSkipped) {
  const auto good = augment_sheet(scenes(), random_chain(), small()).samples;
  fs::resize_file(file(good[1]), 200);
  EXPECT_THAT(thrown(random_chain(), small()),
              AllOf(StartsWith("Error: step 'decode'"), HasSubstr(file(good[1]).filename())));
  const AugmentSheet shown = augment_sheet(scenes(), random_chain(), skipping());
  const Sampler order(kSamples, true, 5);
  EXPECT_THAT(shown.samples, ElementsAre(good[0], good[2], good[3], order.at(3, 4)));
  ASSERT_EQ(shown.skipped.size(), 1U);
  EXPECT_EQ(shown.skipped[0].sample, good[1]);
  EXPECT_THAT(shown.skipped[0].message, HasSubstr("step 'decode'"));
  EXPECT_EQ(pixels_in(shown.sheet.tiles[11]), loaded(scenes(), 5, 4, shown.samples[3]));
}

TEST_F(AugmentSheetTest, UnfitSamplesAndBadLabelsAreSkippedOrThrow) {
  AugmentSheetOptions all = skipping();
  all.samples = kSamples;
  const AugmentSheet shown = augment_sheet(scenes(), {{"crop", RandomCrop{2 * kAugmentSide}}}, all);
  EXPECT_FALSE(shown.samples.empty());
  EXPECT_EQ(shown.samples.size() + shown.skipped.size(), kSamples);
  ASSERT_FALSE(shown.skipped.empty());
  EXPECT_THAT(shown.skipped[0].message, HasSubstr("step 'crop'"));
  EXPECT_EQ(shown.sheet.tiles.size(), 3 * shown.samples.size());
  EXPECT_THAT(thrown(random_chain(), all, scenes(1)),
              AllOf(StartsWith("Error: all 9 samples are bad; the first: step 'collate'"),
                    HasSubstr("holds class")));
  EXPECT_THAT(
      thrown(random_chain(), small(), float_images()),
      StartsWith("Error: sample 1: its image is float32 of 32 x 32, which cannot be shown"));
  EXPECT_THAT(augment_sheet(float_images(), random_chain(), skipping()).samples, ElementsAre(0));
}

TEST_F(AugmentSheetTest, RowsAreLimitedToSamplesAndStopDiscardsTiles) {
  AugmentSheetOptions options = small();
  options.samples = 1000000;
  EXPECT_EQ(augment_sheet(scenes(), random_chain(), options).samples.size(), kSamples);
  int asked = 0;
  options.stop = [&] { return ++asked > 2; };
  const AugmentSheet shown = augment_sheet(scenes(), random_chain(), options);
  EXPECT_EQ(shown.samples.size(), 2U);
  EXPECT_TRUE(shown.sheet.tiles.empty());
}

TEST_F(AugmentSheetTest, InvalidOptionsAreRefusedTogether) {
  constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();
  const auto at_once = [] { return true; };
  const struct {
    AugmentSheetOptions options;
    std::vector<std::string> says;
  } cases[] = {{{.samples = 0, .versions = 0, .cell = 15},
                {"Refused: 0 samples", "0 versions", "cells of 15 pixels: give 16 to 4096"}},
               {{.cell = 4097}, {"Refused: cells of 4097"}},
               {{.samples = 9, .versions = 1, .cell = 4096},
                {"Refused: 9 samples of 1 version result in a sheet of more than 10 tiles"}},
               {{.samples = 5, .versions = 1, .cell = 4096, .stop = at_once}, {"nothing"}},
               {{.versions = std::numeric_limits<std::size_t>::max()},
                {"Refused: 8 samples of 18446744073709551615 versions"}},
               {{.versions = 3, .epoch = kLast - 1, .cell = kAugmentCell},
                {"Refused: the last version would be that of an epoch above 4294967295"}},
               {{.versions = 2, .epoch = kLast - 1, .cell = kAugmentCell}, {"nothing"}}};
  for (const auto& each : cases) {
    const std::string said = thrown(random_chain(), each.options);
    EXPECT_THAT(said, StartsWith(each.says[0]));
    for (const std::string& words : each.says) EXPECT_THAT(said, HasSubstr(words));
  }
}

TEST_F(AugmentSheetTest, InvalidChainsAndUndisplayableImagesAreRefused) {
  const auto arrays = [](FieldKind kind, const Shape& shape) {
    return tensor_dataset({{"label", FieldKind::label,
                            counting<std::int64_t>(DType::int64, {shape[0] == 0 ? 0 : 1}), 0},
                           {"values", kind, counting<std::uint8_t>(DType::uint8, shape), 0}});
  };
  const struct {
    std::vector<NamedOp> chain;
    std::shared_ptr<const Dataset> dataset;
    std::string says;
  } cases[] = {
      {{{"flip", RandomHorizontalFlip{}}}, nullptr, "add resize"},
      {{kResize, {"floats", ToDtype{.scale = true}}, {"more", ToDtype{DType::int64}}},
       nullptr,
       "transform 'more': "},
      {{}, arrays(FieldKind::image, {0, 4, 4, 3}), "the data set is empty"},
      {{}, arrays(FieldKind::other, {1, 4, 4, 3}), "the data set has no images"},
      {{},
       arrays(FieldKind::image, {1, 4, 0, 3}),
       "images cannot be shown: field 'values' is uint8 of 4 x 0 x 3"},
      {{kResize, {"classes", ToClasses{}}},
       nullptr,
       "images cannot be shown: field 'image' is int64 of 32 x 32 x 3 after the transforms"}};
  for (const auto& each : cases)
    EXPECT_THAT(thrown(each.chain, small(), each.dataset),
                AllOf(StartsWith("Refused: "), HasSubstr(each.says)));
}

TEST_F(AugmentSheetTest, BoxesFollowTheImageTransform) {
  const auto boxed =
      made_set(1,
               {{"image", FieldKind::image, DType::uint8, {kAugmentSide, kAugmentSide, 3}, 0},
                {"boxes", FieldKind::boxes, DType::float32, {1, 4}, 0}},
               [](std::size_t, Sample& out) {
                 const MutableArray image =
                     out.fields[0].array.reset(DType::uint8, {kAugmentSide, kAugmentSide, 3});
                 std::fill_n(image.data, image.bytes(), std::byte{128});
                 const float box[] = {4, 8, 12, 24};
                 std::copy_n(box, 4, out.fields[1].array.reset(DType::float32, {1, 4}).as<float>());
               });
  const AugmentSheet shown = augment_sheet(boxed, {{"flip", RandomHorizontalFlip{1}}},
                                           {.versions = 1, .cell = kAugmentCell});
  const auto left_edge = [&](std::size_t tile) {
    const Bytes pixels = pixels_in(shown.sheet.tiles[tile]);
    for (std::int64_t x = 0; x < kAugmentSide; ++x)
      if (pixels[static_cast<std::size_t>(12 * kAugmentSide + x) * 3] == std::byte{255}) return x;
    return kAugmentSide;
  };
  EXPECT_EQ(left_edge(0), 4);
  EXPECT_EQ(left_edge(1), 20);
}

}  // namespace
}  // namespace slipstream
