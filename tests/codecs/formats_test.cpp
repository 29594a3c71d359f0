#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "codecs/codec.h"
#include "codecs/formats.h"
#include "slipstream/codecs/image.h"
#include "support/image_records.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace std::string_literals;

constexpr std::array kFormats = {ImageFormat::jpeg, ImageFormat::png, ImageFormat::pnm,
                                 ImageFormat::bmp,  ImageFormat::gif, ImageFormat::tiff,
                                 ImageFormat::webp};

/// The files of golden/make_formats.py that this build decodes.
std::vector<ImageRecord> decodable_records() {
  std::vector<ImageRecord> records = image_records("formats");
  EXPECT_GT(records.size(), 80u);
  std::erase_if(records,
                [](const ImageRecord& each) { return !can_decode(image_format(each.file)); });
  return records;
}

ImageRecord record(const std::string& name) {
  for (ImageRecord& each : image_records("formats")) {
    if (each.name == name) return each;
  }
  throw std::out_of_range("no record " + name);
}

std::string error(std::span<const std::byte> file, const DecodeOptions& options = {}) {
  HostArray out;
  return thrown_by([&] { decode_rgb(file, options, out); });
}

std::vector<std::byte> with_byte(std::vector<std::byte> file, std::size_t at, unsigned value) {
  file.at(at) = static_cast<std::byte>(value);
  return file;
}

TEST(Formats, EveryVariantHasThePixelsOfPil) {
  for (const ImageRecord& each : decodable_records()) {
    SCOPED_TRACE(each.name);
    HostArray out;
    EXPECT_EQ(thrown_by([&] { decode_rgb(each.file, {.strict = true}, out); }), "nothing");
    EXPECT_EQ(out.view().shape, Shape({each.shape[0], each.shape[1], 3}));
    EXPECT_EQ(copy_levels(out), each.rgb);
    const Shape header = image_shape(each.file);
    EXPECT_EQ(header[0], each.shape[0]);
    EXPECT_EQ(header[1], each.shape[1]);
  }
}

TEST(Formats, FormatIsDetectedFromContent) {
  for (const ImageRecord& each : image_records("formats")) {
    const std::string_view extension = std::string_view(each.name).substr(each.name.rfind('.'));
    EXPECT_EQ(image_extension(image_format(each.file)), extension) << each.name;
  }
  for (const char* text : {"BM", "BMthis is no header of a bitmap", "RIFF1234WAVE", "II", "GIF88a"})
    EXPECT_EQ(image_format(std::as_bytes(std::span(text, std::strlen(text)))),
              ImageFormat::unknown);
}

TEST(Formats, MessagesNameEveryExtension) {
  std::string names;
  for (const ImageExtension& each : kImageExtensions) {
    const bool is_last = &each == &kImageExtensions.back();
    names += (names.empty() ? "" : is_last ? " or " : ", ") + std::string(each.text);
  }
  EXPECT_EQ(names, kImageNames);
  for (const ImageFormat format : kFormats) EXPECT_NE(to_string(format), "unknown");
}

TEST(Formats, MissingLibraryIsNamedWithTheRemedy) {
  EXPECT_THAT(missing_codec_message(ImageFormat::tiff),
              AllOf(HasSubstr("this build of Slipstream cannot decode TIFF files, because libtiff"),
                    HasSubstr("install libtiff-dev and build again")));
  for (const ImageRecord& each : image_records("formats")) {
    const ImageFormat format = image_format(each.file);
    if (can_decode(format)) continue;
    EXPECT_THAT(error(each.file), HasSubstr(missing_codec_message(format))) << each.name;
  }
  for (const ImageFormat format : {ImageFormat::jpeg, ImageFormat::png, ImageFormat::bmp})
    EXPECT_TRUE(can_decode(format));
}

TEST(Formats, TransparentPixelsShowTheBackground) {
  for (const char* name : {"rgba.tif", "premultiplied.tif", "rgba_16.tif", "alpha_lossless.webp",
                           "moved.webp", "transparent.gif", "transparent_moved.gif"}) {
    const ImageRecord each = record(name);
    if (!can_decode(image_format(each.file))) continue;
    EXPECT_TRUE(may_be_transparent(each.file)) << name;
    HostArray out;
    decode_rgb(each.file, {.background = {255, 255, 255}}, out);
    const Levels levels = copy_levels(out);
    std::size_t lighter = 0;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      EXPECT_GE(levels[i], each.rgb[i]) << name << " " << i;
      lighter += levels[i] > each.rgb[i];
    }
    EXPECT_GT(lighter, levels.size() / 100) << name;
  }
}

TEST(Formats, EveryTruncationThrowsOrDecodes) {
  HostArray out;
  for (const ImageRecord& each : decodable_records()) {
    const std::size_t step = each.file.size() / 60 + 1;
    for (std::size_t size = 0; size < each.file.size(); size += step) {
      // A copy, so that a read beyond its end is noticed by AddressSanitizer.
      const std::vector<std::byte> part(each.file.begin(),
                                        each.file.begin() + static_cast<std::ptrdiff_t>(size));
      try {
        decode_rgb(part, {.pixel_limit = 1 << 20}, out);
      } catch (const Error&) {
      }
    }
  }
}

TEST(Formats, TruncatedPixelsThrow) {
  for (const char* name : {"rgb.bmp", "rle8.bmp", "plain.gif", "raw.tif", "tiff_lzw.tif",
                           "lossy.webp", "lossless.webp"}) {
    const ImageRecord each = record(name);
    if (!can_decode(image_format(each.file))) continue;
    // In the TIFF files, the pixels are before the tags.
    auto part = each.file;
    part.resize(part.size() * 2 / 3);
    EXPECT_THAT(error(part), AllOf(HasSubstr("broken "), HasSubstr("; replace or remove the file")))
        << name;
  }
}

TEST(Formats, HugeImagesAreRefusedBeforeDecoding) {
  const std::pair<const char*, std::size_t> sizes[] = {
      {"rgb.bmp", 18}, {"plain.gif", 6}, {"moved.webp", 24}};
  for (const auto& [name, width_at] : sizes) {
    ImageRecord each = record(name);
    if (!can_decode(image_format(each.file))) continue;
    each.file[width_at + 1] = std::byte{0x7f};
    EXPECT_THAT(error(each.file, {.pixel_limit = 1000}), HasSubstr("over the limit of 1000"))
        << name;
  }
  if (!can_decode(ImageFormat::tiff)) return;
  const std::string refused = error(record("tiles.tif").file, {.pixel_limit = 100});
  EXPECT_THAT(refused, HasSubstr("over the limit of 100"));
}

TEST(Formats, MasksMustBePng) {
  HostArray out;
  for (const char* name : {"palette_8.bmp", "palette.tif", "plain.gif", "lossless.webp"}) {
    const ImageRecord each = record(name);
    const ImageFormat format = image_format(each.file);
    if (!can_decode(format)) continue;
    EXPECT_THAT(
        thrown_by([&] { decode_mask(each.file, {}, out); }),
        HasSubstr("a mask must be PNG, but this file is " + std::string(to_string(format))));
  }
}

TEST(Formats, OnlyJpegIsDecodedInPart) {
  HostArray out;
  EXPECT_EQ(decode_rgb_window(record("rgb.bmp").file, {}, {{0, 0, 2, 2}}, out), std::nullopt);
}

TEST(Bmp, UnsupportedKindsAreNamed) {
  const std::vector<std::byte> file = record("rgb.bmp").file;
  EXPECT_THAT(error(with_byte(file, 28, 2)), HasSubstr("this BMP has 2 bits per pixel"));
  EXPECT_THAT(error(with_byte(file, 30, 4)), HasSubstr("compression 4 with 24 bits per pixel"));
  EXPECT_THAT(error(with_byte(file, 21, 0x80)), HasSubstr("its width is negative"));
}

TEST(Bmp, RunsOutsideOfTheImageAreIgnored) {
  std::vector<std::byte> file = record("rle8.bmp").file;
  const std::size_t first =
      std::to_integer<std::size_t>(file[10]) | std::to_integer<std::size_t>(file[11]) << 8;
  file.resize(first);
  // A run that is longer than a row, a jump far above the image.
  for (const unsigned byte : {255u, 1u, 0u, 2u, 255u, 255u, 9u, 9u})
    file.push_back(static_cast<std::byte>(byte));
  EXPECT_EQ(error(file), "nothing");
}

TEST(Tiff, UnsupportedKindsAreNamed) {
  if (!can_decode(ImageFormat::tiff)) GTEST_SKIP() << "this build has no libtiff";
  // The tags of the file are 12 bytes each, the value at offset 8.
  const auto with_tag = [](std::uint32_t tag, unsigned value) {
    std::vector<std::byte> file = record("white_8.tif").file;
    for (std::size_t at = 8; at + 12 <= file.size(); ++at) {
      const auto u16 = [&](std::size_t i) {
        return std::to_integer<std::uint32_t>(file[i]) | std::to_integer<std::uint32_t>(file[i + 1])
                                                             << 8;
      };
      if (u16(at) == tag && u16(at + 2) == 3 && u16(at + 4) == 1) {
        file[at + 8] = static_cast<std::byte>(value & 255);
        file[at + 9] = static_cast<std::byte>(value >> 8);
        return file;
      }
    }
    return file;
  };
  EXPECT_THAT(error(with_tag(258, 32)), HasSubstr("this TIFF has 32 bits per sample"));
  EXPECT_THAT(error(with_tag(262, 8)),
              HasSubstr("colors of kind 8 (tag PhotometricInterpretation)"));
  EXPECT_THAT(error(with_tag(259, 6)), HasSubstr("obsolete JPEG compression"));
  EXPECT_THAT(error(with_tag(259, 999)), HasSubstr("compression 999"));
  EXPECT_THAT(error(with_tag(277, 7)), HasSubstr("7 samples per pixel"));
}

}  // namespace
}  // namespace slipstream
