#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/image_records.h"
#include "data/jpeg_writer.h"
#include "data/loader_fixture.h"
#include "slipstream/image.h"
#include "slipstream/resize.h"
#include "slipstream/transforms.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

/// Images of many kinds and sizes, as files, with masks of the same size.
class PictureSet final : public Dataset {
 public:
  PictureSet() {
    for (std::int64_t i = 0; i < 12; ++i) {
      const std::int64_t height = 40 + 7 * i;
      const std::int64_t width = 90 - 3 * i;
      const JpegKind kind = {.across = 1 + static_cast<int>(i % 2),
                             .down = 1 + static_cast<int>(i / 2 % 2),
                             .is_progressive = i % 5 == 0};
      const Levels levels = noisy_levels(height, width, 3);
      add(i == 7 ? encode_png(pixels_of(levels, {height, width, 3}))
                 : write_jpeg(kind, height, width, levels));
    }
    add(image_record("exif_6.jpg").file);
    add(image_record("cmyk.jpg").file);
  }

  std::size_t size() const override { return images_.size(); }
  std::vector<FieldSpec> fields() const override {
    return {{"mask", FieldKind::mask, DType::u8, {-1, -1}, 0},
            {"image", FieldKind::image, DType::u8, {-1, -1, 3}, 0},
            {"again", FieldKind::image, DType::u8, {-1, -1, 3}, 0},
            {"class", FieldKind::label, DType::i64, {}, 0}};
  }
  void read(std::size_t index, Sample& out) const override {
    put(masks_[index], out.fields[0]);
    put(images_[index], out.fields[1]);
    out.fields[2].array.assign(decoded_[index].view());
    *out.fields[3].array.reset(DType::i64, {}).as<std::int64_t>() = 3;
  }
  bool decodes_by_default() const override { return decodes_default; }

  std::vector<std::byte>& image(std::size_t index) { return images_[index]; }
  bool decodes_default = true;

 private:
  void add(std::vector<std::byte> file) {
    const Shape shape = image_shape(file);
    const Levels mask = noisy_levels(shape[0], shape[1], 1);
    masks_.push_back(encode_png(pixels_of(mask, {shape[0], shape[1]})));
    decode_rgb(file, {}, decoded_.emplace_back());
    images_.push_back(std::move(file));
  }
  static void put(const std::vector<std::byte>& file, Field& field) {
    field.array.assign({file.data(), DType::u8, {static_cast<std::int64_t>(file.size())}});
    field.encoded = true;
  }

  std::vector<std::vector<std::byte>> images_;
  std::vector<std::vector<std::byte>> masks_;
  std::vector<HostArray> decoded_;
};

struct Taken {
  std::vector<Bytes> slabs;
  double decoded_bytes = 0;  ///< a sample
};

Taken run(std::shared_ptr<const Dataset> dataset, const std::vector<NamedOp>& chain,
          bool is_partial, std::optional<HostCut> cut = std::nullopt) {
  const LoaderOptions options = {
      .batch_size = 3, .workers = 2, .cut = std::move(cut), .decode = {.partial = is_partial}};
  Loader loader(std::move(dataset), chain, options);
  Taken result;
  result.slabs = take(loader, 20);
  const StepCounter decode = loader.counters()[1];
  if (decode.calls > 0) {
    result.decoded_bytes = static_cast<double>(decode.bytes) / static_cast<double>(decode.calls);
  }
  return result;
}

std::vector<std::vector<NamedOp>> chains() {
  return {{{"crop", CentreCrop{13, 11}}},
          {{"crop", RandomCrop{12, 10}}, {"flip", HorizontalFlip{}}},
          {{"crop", RandomCrop{30, 40, 20}}},
          {{"crop", RandomResizedCrop{16, 24}}, {"scale", Normalise{}}},
          {{"crop", RandomResizedCrop{64, 64}}, {"crop again", RandomCrop{32, 32}}}};
}

TEST(LoaderPart, BatchesAreTheSameWithPartialDecodingAndWithout) {
  for (const auto& chain : chains()) {
    const Taken whole = run(std::make_shared<PictureSet>(), chain, false);
    const Taken part = run(std::make_shared<PictureSet>(), chain, true);
    EXPECT_EQ(part.slabs, whole.slabs);
    EXPECT_LT(part.decoded_bytes, whole.decoded_bytes);
  }
}

TEST(LoaderPart, BatchesAreTheSameAfterACut) {
  for (const std::string after : {"read", "decode", "crop"}) {
    for (const auto& chain : chains()) {
      const HostCut cut{after, 14};
      EXPECT_EQ(run(std::make_shared<PictureSet>(), chain, true, cut).slabs,
                run(std::make_shared<PictureSet>(), chain, false, cut).slabs)
          << after;
    }
  }
}

TEST(LoaderPart, OnlyAFirstCropOfPlainlyDecodedImagesDecodesParts) {
  const auto decoded = [](bool is_default, const std::vector<NamedOp>& chain, bool is_partial) {
    const auto dataset = std::make_shared<PictureSet>();
    dataset->decodes_default = is_default;
    return run(dataset, chain, is_partial, std::nullopt).decoded_bytes;
  };
  const std::vector<NamedOp> crop = {{"crop", RandomCrop{12, 10}}};
  const std::vector<NamedOp> late = {{"small", Resize{30, 30}}, {"crop", RandomCrop{12, 10}}};
  // Workers decode ahead of what is taken: the averages differ a little from run to run.
  const double whole = decoded(true, crop, false);
  EXPECT_NEAR(decoded(false, crop, true), whole, whole / 4);
  EXPECT_NEAR(decoded(true, late, true), whole, whole / 4);
  EXPECT_LT(decoded(true, crop, true), whole * 3 / 4);
}

std::string first_error(const std::shared_ptr<const Dataset>& dataset,
                        const std::vector<NamedOp>& chain, bool is_partial) {
  Loader loader(dataset, chain,
                {.batch_size = 14, .shuffle = false, .decode = {.partial = is_partial}});
  return message_of_next(loader);
}

TEST(LoaderPart, ErrorsNameTheSameStep) {
  const auto dataset = std::make_shared<PictureSet>();
  const std::vector<NamedOp> too_large = {{"crop", RandomCrop{45, 10}}};
  EXPECT_THAT(first_error(dataset, too_large, true), HasSubstr("step 'crop' of sample 0"));
  EXPECT_EQ(first_error(dataset, too_large, true), first_error(dataset, too_large, false));

  std::vector<std::byte>& file = dataset->image(2);
  file.resize(file.size() - 9);
  const std::vector<NamedOp> crop = {{"crop", CentreCrop{5, 5}}};
  EXPECT_THAT(first_error(dataset, crop, true), HasSubstr("step 'decode' of sample 2"));
  EXPECT_EQ(first_error(dataset, crop, true), first_error(dataset, crop, false));
  file.clear();
  EXPECT_THAT(first_error(dataset, crop, true), HasSubstr("step 'decode' of sample 2"));
}

}  // namespace
}  // namespace slipstream
