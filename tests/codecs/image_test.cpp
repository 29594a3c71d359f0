#include "slipstream/codecs/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/image_records.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;

TEST(DecodeRgb, EveryFileKindMatchesReferencePixels) {
  const std::vector<ImageRecord> records = image_records();
  ASSERT_EQ(records.size(), 39u);
  for (const ImageRecord& record : records) {
    SCOPED_TRACE(record.name);
    HostArray out;
    ASSERT_NO_THROW(decode_rgb(record.file, {}, out));
    EXPECT_EQ(out.view().shape, Shape({record.shape[0], record.shape[1], 3}));
    EXPECT_EQ(out.view().dtype, DType::uint8);
    EXPECT_EQ(copy_levels(out), record.rgb);
  }
}

TEST(DecodeRgb, TransparentPixelsShowTheBackground) {
  const std::vector<ImageRecord> records = image_records("backgrounds");
  ASSERT_EQ(records.size(), 9u);
  for (const ImageRecord& record : records) {
    SCOPED_TRACE(record.name);
    HostArray out;
    ASSERT_NO_THROW(decode_rgb(record.file, {.background = {10, 200, 33}}, out));
    EXPECT_EQ(copy_levels(out), record.rgb);
  }
}

TEST(DecodeRgb, ReusesOutputMemory) {
  HostArray out;
  decode_rgb(image_record("rgb_420.jpg").file, {}, out);
  const std::byte* memory = out.view().data;
  decode_rgb(image_record("rgba_interlaced.png").file, {}, out);
  EXPECT_EQ(out.view().data, memory);
}

TEST(DecodeMask, ReturnsUnscaledClassNumbers) {
  int masks = 0;
  for (const ImageRecord& record : image_records()) {
    if (record.mask.empty()) continue;
    SCOPED_TRACE(record.name);
    HostArray out;
    ASSERT_NO_THROW(decode_mask(record.file, {}, out));
    EXPECT_EQ(out.view().shape, record.shape);
    EXPECT_EQ(copy_levels(out), record.mask);
    ++masks;
  }
  EXPECT_EQ(masks, 14);
}

TEST(DecodeMask, FilesWithoutClassNumbersThrow) {
  const auto refusal = [](const char* name) {
    HostArray out;
    return thrown_by([&] { decode_mask(image_record(name).file, {}, out); });
  };
  EXPECT_THAT(refusal("rgb.png"), HasSubstr("Error: this PNG is not a mask: it has colors"));
  EXPECT_THAT(refusal("rgba.png"), HasSubstr("an alpha channel"));
  EXPECT_THAT(refusal("gray_alpha.png"), HasSubstr("an alpha channel"));
  EXPECT_THAT(refusal("gray_16.png"), HasSubstr("16 bits per pixel"));
  EXPECT_THAT(refusal("gray.jpg"), HasSubstr("a mask must be PNG"));
}

TEST(ColorNamed, AcceptsBlackWhiteAndSixHexDigits) {
  EXPECT_EQ(color_named("black"), (Rgb{0, 0, 0}));
  EXPECT_EQ(color_named("white"), (Rgb{255, 255, 255}));
  EXPECT_EQ(color_named("#0aFF10"), (Rgb{10, 255, 16}));
  for (const char* text : {"", "#", "#fff", "#0aff1", "#0aff1g", "#0aff100", "0aff10", "-0aff10"})
    EXPECT_THAT(
        thrown_by([&] { color_named(text); }),
        HasSubstr("Refused: '" + std::string(text) + "' is not a color: give black, white"));
}

TEST(ImageFormat, IsDetectedFromContent) {
  EXPECT_EQ(image_format(image_record("gray.jpg").file), ImageFormat::jpeg);
  EXPECT_EQ(image_format(image_record("gray_1.png").file), ImageFormat::png);
  EXPECT_EQ(image_format({}), ImageFormat::unknown);
  EXPECT_EQ(image_format(std::as_bytes(std::span("text"))), ImageFormat::unknown);
}

TEST(ImageShape, ReturnsStoredChannels) {
  const auto channels = [](const char* name) { return image_shape(image_record(name).file); };
  EXPECT_EQ(channels("rgb_420.jpg"), Shape({13, 21, 3}));
  EXPECT_EQ(channels("progressive.jpg"), Shape({13, 21, 3}));
  EXPECT_EQ(channels("gray.jpg"), Shape({13, 21, 1}));
  EXPECT_EQ(channels("cmyk.jpg"), Shape({13, 21, 4}));
  EXPECT_EQ(channels("gray_2.png"), Shape({13, 21, 1}));
  EXPECT_EQ(channels("gray_alpha.png"), Shape({13, 21, 2}));
  EXPECT_EQ(channels("palette_8.png"), Shape({13, 21, 1}));
  EXPECT_EQ(channels("rgb_16.png"), Shape({13, 21, 3}));
  EXPECT_EQ(channels("rgba.png"), Shape({13, 21, 4}));
}

TEST(ImageShape, AppliesExifOrientation) {
  for (const ImageRecord& record : image_records()) {
    const Shape shape = image_shape(record.file);
    EXPECT_EQ(Shape({shape[0], shape[1]}), record.shape) << record.name;
  }
  EXPECT_EQ(image_shape(image_record("exif_6.jpg").file), Shape({21, 13, 3}));
}

Levels ramp(std::size_t count) {
  Levels levels(count);
  for (std::size_t i = 0; i < count; ++i) levels[i] = static_cast<std::uint8_t>(i * 255 / count);
  return levels;
}

TEST(EncodePng, RoundTripKeepsEveryLevel) {
  HostArray out;
  const Levels rgb = ramp(5 * 7 * 3);
  decode_rgb(encode_png(view_levels(rgb, {5, 7, 3})), {}, out);
  EXPECT_EQ(copy_levels(out), rgb);
  const Levels gray = ramp(256);
  decode_mask(encode_png(view_levels(gray, {16, 16})), {}, out);
  EXPECT_EQ(copy_levels(out), gray);
}

TEST(EncodeJpeg, Quality100IsCloseAndQuality1IsSmaller) {
  const Levels gray = ramp(64 * 64);
  const std::vector<std::byte> fine = encode_jpeg(view_levels(gray, {64, 64}), 100);
  EXPECT_EQ(image_shape(fine), Shape({64, 64, 1}));
  HostArray out;
  decode_rgb(fine, {}, out);
  for (std::size_t i = 0; i < gray.size(); ++i) {
    ASSERT_NEAR(out.view().as<std::uint8_t>()[3 * i], gray[i], 3);
  }
  EXPECT_LT(encode_jpeg(view_levels(gray, {64, 64}), 1).size(), fine.size());
  EXPECT_EQ(image_shape(encode_jpeg(view_levels(ramp(192), {8, 8, 3}), 90)), Shape({8, 8, 3}));
}

TEST(Encode, InvalidQualityShapeOrTypeThrows) {
  const Levels levels(3 * 65'501);
  EXPECT_THAT(thrown_by([&] {
                encode_jpeg(view_levels(levels, {2, 2, 3}), 0);
              }),
              HasSubstr("Error: JPEG quality is 0"));
  EXPECT_THAT(thrown_by([&] {
                encode_jpeg(view_levels(levels, {2, 2, 3}), 101);
              }),
              HasSubstr("it must be 1 to 100"));
  EXPECT_THAT(thrown_by([&] {
                encode_jpeg(view_levels(levels, {1, 65'501, 3}), 90);
              }),
              HasSubstr("Error: cannot write a JPEG"));
  EXPECT_THAT(thrown_by([&] {
                encode_png(view_levels(levels, {2, 2, 4}));
              }),
              HasSubstr("cannot encode uint8 of 2 x 2 x 4"));
  EXPECT_THAT(thrown_by([&] {
                encode_png(view_levels(levels, {0, 2, 3}));
              }),
              HasSubstr("0 x 2 x 3"));
  ConstArray floats = view_levels(levels, {2, 2});
  floats.dtype = DType::float32;
  EXPECT_THAT(thrown_by([&] { encode_png(floats); }), HasSubstr("cannot encode float32"));
}

}  // namespace
}  // namespace slipstream
