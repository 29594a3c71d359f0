#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>

#include "codecs/jpeg_reader.h"
#include "slipstream/codecs/image.h"
#include "support/image_records.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;
using File = std::vector<std::byte>;

std::string decode_fault(std::span<const std::byte> file, const DecodeOptions& options = {}) {
  HostArray out;
  return thrown_by([&] { decode_rgb(file, options, out); });
}

std::string mask_error(std::span<const std::byte> file, const DecodeOptions& options = {}) {
  HostArray out;
  return thrown_by([&] { decode_mask(file, options, out); });
}

std::size_t find(const File& file, std::initializer_list<unsigned> bytes) {
  const auto same = [](std::byte have, unsigned want) {
    return std::to_integer<unsigned>(have) == want;
  };
  const auto at = std::search(file.begin(), file.end(), bytes.begin(), bytes.end(), same);
  return static_cast<std::size_t>(at - file.begin());
}

void put(File& file, std::size_t at, std::initializer_list<unsigned> bytes) {
  for (const unsigned byte : bytes) file.at(at++) = static_cast<std::byte>(byte);
}

File jpeg_of_size(unsigned height, unsigned width) {
  File file = image_record("rgb_420.jpg").file;
  put(file, find(file, {0xff, 0xc0}) + 5, {height >> 8, height & 0xff, width >> 8, width & 0xff});
  return file;
}

File png_of_size(unsigned height, unsigned width) {
  File file = image_record("gray_8.png").file;
  put(file, 16, {0, 0, width >> 8, width & 0xff, 0, 0, height >> 8, height & 0xff});
  return file;
}

TEST(DecodeFaults, TruncatedFileThrowsUnlessAllPixelsArePresent) {
  for (const ImageRecord& record : image_records()) {
    for (std::size_t size = 0; size < record.file.size(); ++size) {
      const auto cut = std::span(record.file).first(size);
      HostArray out;
      const std::string fault = thrown_by([&] { decode_rgb(cut, {}, out); });
      ASSERT_THAT(fault, AnyOf("nothing", StartsWith("Error: "))) << record.name << " of " << size;
      ASSERT_THAT(decode_fault(cut, {.strict = true}), StartsWith("Error: "));
      if (fault != "nothing") continue;
      ASSERT_GT(size + 14, record.file.size()) << record.name << " of " << size;
      ASSERT_EQ(copy_levels(out), record.rgb) << record.name << " of " << size;
    }
  }
}

TEST(DecodeFaults, TruncatedMaskThrowsUnlessAllClassesArePresent) {
  for (const ImageRecord& record : image_records()) {
    for (std::size_t size = 0; size < record.file.size() && !record.mask.empty(); ++size) {
      HostArray out;
      const auto cut = std::span(record.file).first(size);
      const std::string fault = thrown_by([&] { decode_mask(cut, {}, out); });
      ASSERT_THAT(fault, AnyOf("nothing", StartsWith("Error: "))) << record.name << " of " << size;
      ASSERT_THAT(mask_error(cut, {.strict = true}), StartsWith("Error: "));
      if (fault != "nothing") continue;
      ASSERT_EQ(copy_levels(out), record.mask) << record.name << " of " << size;
    }
  }
}

TEST(DecodeFaults, AnyChangedByteDecodesOrThrowsError) {
  for (const ImageRecord& record : image_records()) {
    for (std::size_t at = 0; at < record.file.size(); ++at) {
      for (const std::byte flip : {std::byte{0x01}, std::byte{0xff}}) {
        File file = record.file;
        file[at] ^= flip;
        const DecodeOptions small{.pixel_limit = 1 << 20};
        ASSERT_THAT(decode_fault(file, small), AnyOf("nothing", StartsWith("Error: ")))
            << record.name << " at " << at;
        ASSERT_THAT(mask_error(file, small), AnyOf("nothing", StartsWith("Error: ")))
            << record.name << " at " << at;
      }
    }
  }
}

TEST(DecodeFaults, EveryChangedByteOfPngPixelsThrows) {
  const File good = image_record("rgb.png").file;
  const std::size_t data = find(good, {'I', 'D', 'A', 'T'});
  const std::size_t end = find(good, {'I', 'E', 'N', 'D'}) - 4;
  for (std::size_t at = data; at < end; ++at) {
    File file = good;
    file[at] ^= std::byte{0x10};
    EXPECT_THAT(decode_fault(file), StartsWith("Error: broken PNG: ")) << at;
  }
}

// Corrects the checksum of the chunk whose name is at `chunk`.
void sign(File& file, std::size_t chunk, std::size_t data_bytes) {
  const auto* from = reinterpret_cast<const Bytef*>(&file[chunk]);
  const auto crc = static_cast<unsigned>(::crc32(0, from, static_cast<uInt>(4 + data_bytes)));
  put(file, chunk + 4 + data_bytes, {crc >> 24, crc >> 16 & 0xff, crc >> 8 & 0xff, crc & 0xff});
}

TEST(DecodeFaults, WrongZlibChecksumInPngPixelsThrows) {
  File file = image_record("gray_8.png").file;
  const std::size_t chunk = find(file, {'I', 'D', 'A', 'T'});
  const std::size_t bytes = std::to_integer<std::size_t>(file[chunk - 1]);
  file[chunk + 4 + bytes - 1] ^= std::byte{0x01};
  sign(file, chunk, bytes);
  EXPECT_THAT(decode_fault(file), StartsWith("Error: broken PNG: IDAT"));
  EXPECT_THAT(mask_error(file), StartsWith("Error: broken PNG: IDAT"));
}

/// Returns the first warning about `file`, which must decode, and must be an error in strict
/// decoding.
std::string tolerated_warning(const File& file) {
  HostArray out;
  std::string warning;
  EXPECT_EQ(thrown_by([&] { decode_rgb(file, {.warning = &warning}, out); }), "nothing");
  EXPECT_THAT(decode_fault(file, {.strict = true}), HasSubstr(warning));
  return warning;
}

TEST(DecodeFaults, PngWithTooFewRowsOfDataThrows) {
  File file = png_of_size(14, 21);
  sign(file, 12, 13);
  EXPECT_THAT(decode_fault(file), StartsWith("Error: broken PNG: "));
  EXPECT_THAT(mask_error(file), StartsWith("Error: broken PNG: "));
}

TEST(DecodeFaults, PngWithTooManyRowsOfDataGivesWarning) {
  File file = png_of_size(12, 21);
  sign(file, 12, 13);
  EXPECT_THAT(tolerated_warning(file), HasSubstr("IDAT"));
  EXPECT_EQ(mask_error(file), "nothing");
}

TEST(DecodeFaults, JpegWhosePixelsEndEarlyGivesWarning) {
  for (const char* name : {"rgb_420.jpg", "restarts.jpg", "cmyk.jpg"}) {
    File file = image_record(name).file;
    put(file, find(file, {0xff, 0xda}) + 60, {0xff, 0xd9});
    EXPECT_THAT(tolerated_warning(file), HasSubstr("Corrupt JPEG data: ")) << name;
  }
}

TEST(DecodeFaults, JpegWithTooFewOrTooManyRowsOfDataGivesWarning) {
  EXPECT_THAT(tolerated_warning(jpeg_of_size(130, 21)), HasSubstr("premature end of data"));
  EXPECT_THAT(tolerated_warning(jpeg_of_size(1, 16)),
              HasSubstr("extraneous bytes before marker 0xd9"));
}

TEST(DecodeFaults, JunkBetweenJpegSegmentsIsSkippedWithWarning) {
  const ImageRecord record = image_record("rgb_420.jpg");
  for (const std::initializer_list<unsigned> marker :
       {std::initializer_list<unsigned>{0xff, 0xdb}, {0xff, 0xc0}, {0xff, 0xc4}, {0xff, 0xda}}) {
    for (const File& junk :
         {File(1, std::byte{0}), File(608, std::byte{0x55}), File{std::byte{0xff}, std::byte{0}}}) {
      File file = record.file;
      const auto at = file.begin() + static_cast<std::ptrdiff_t>(find(file, marker));
      file.insert(at, junk.begin(), junk.end());
      EXPECT_THAT(tolerated_warning(file), HasSubstr("extraneous bytes before marker"));
      HostArray out;
      decode_rgb(file, {}, out);
      EXPECT_EQ(copy_levels(out), record.rgb);
    }
  }
}

TEST(DecodeFaults, IntactFileGivesNoWarning) {
  for (const ImageRecord& record : image_records()) {
    HostArray out;
    std::string warning = "none";
    decode_rgb(record.file, {.warning = &warning}, out);
    EXPECT_EQ(warning, "none") << record.name;
    EXPECT_EQ(decode_fault(record.file, {.strict = true}), "nothing") << record.name;
  }
}

// Returns a file with `count` copies of the first scan of a progressive file, without successive
// approximation.
File jpeg_of_scans(std::size_t count) {
  const File good = image_record("progressive.jpg").file;
  const std::size_t scan = find(good, {0xff, 0xda});
  const std::size_t next_table =
      find(File(good.begin() + static_cast<long>(scan), good.end()), {0xff, 0xc4});
  File once(good.begin() + static_cast<long>(scan),
            good.begin() + static_cast<long>(scan + next_table));
  put(once, 3 + std::to_integer<std::size_t>(once[3]) - 2, {0});
  File file(good.begin(), good.begin() + static_cast<long>(scan));
  for (std::size_t i = 0; i < count; ++i) file.insert(file.end(), once.begin(), once.end());
  file.insert(file.end(), {std::byte{0xff}, std::byte{0xd9}});
  return file;
}

TEST(DecodeFaults, JpegWithMoreThan100ScansThrows) {
  EXPECT_EQ(decode_fault(jpeg_of_scans(100)), "nothing");
  EXPECT_THAT(decode_fault(jpeg_of_scans(101)), HasSubstr("it has more than 100 scans, too many"));
}

TEST(DecodeFaults, MaxScansBoundsTheTotalNumberOfPixels) {
  for (std::int64_t pixels = 1; pixels <= kDefaultPixelLimit; pixels += 999'999) {
    const int scans = jpeg::max_scans(pixels);
    EXPECT_GE(scans, 20);
    EXPECT_LE(scans, 100);
    EXPECT_LE(scans * pixels, 20 * kDefaultPixelLimit);
  }
  EXPECT_EQ(jpeg::max_scans(1 << 24), 100);
  EXPECT_EQ(jpeg::max_scans(1 << 25), 64);
  EXPECT_EQ(jpeg::max_scans(kDefaultPixelLimit), 20);
}

TEST(DecodeFaults, EmptyFileThrows) {
  EXPECT_THAT(decode_fault({}), HasSubstr("Error: the file is empty"));
  EXPECT_THAT(mask_error({}), HasSubstr("Error: the file is empty"));
}

TEST(DecodeFaults, TextFileThrows) {
  const auto text = std::as_bytes(std::span("name,class\ncat,1\n"));
  EXPECT_THAT(decode_fault(text),
              HasSubstr("Error: not a JPEG, PNG, PPM, BMP, GIF, TIFF or WebP file"));
  EXPECT_THAT(mask_error(text),
              HasSubstr("Error: not a JPEG, PNG, PPM, BMP, GIF, TIFF or WebP file"));
}

TEST(DecodeFaults, DecompressionBombThrowsBeforeAllocating) {
  for (const File& file : {jpeg_of_size(60'000, 60'000), png_of_size(60'000, 60'000)}) {
    HostArray out;
    EXPECT_THAT(thrown_by([&] { decode_rgb(file, {}, out); }),
                HasSubstr("60000 x 60000 pixels, over the limit of 178956970"));
    EXPECT_THAT(thrown_by([&] { decode_mask(file, {}, out); }), HasSubstr("over the limit"));
    EXPECT_EQ(out.view().data, nullptr);
  }
}

TEST(DecodeFaults, PixelLimitIsExact) {
  const File file = image_record("rgb_444.jpg").file;
  EXPECT_EQ(decode_fault(file, {.pixel_limit = 13 * 21}), "nothing");
  EXPECT_THAT(decode_fault(file, {.pixel_limit = 13 * 21 - 1}), HasSubstr("over the limit of 272"));
}

TEST(DecodeFaults, OverflowingPixelCountIsOverTheLimit) {
  File file = png_of_size(1, 1);
  put(file, 16, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff});
  EXPECT_THAT(decode_fault(file), HasSubstr("over the limit"));
}

TEST(DecodeFaults, ImageWithoutPixelsThrows) {
  EXPECT_THAT(decode_fault(jpeg_of_size(0, 21)), HasSubstr("Error: the image has no pixels"));
  EXPECT_THAT(decode_fault(jpeg_of_size(13, 0)), HasSubstr("Error: the image has no pixels"));
  EXPECT_THAT(mask_error(png_of_size(0, 21)), HasSubstr("Error: the image has no pixels"));
}

TEST(DecodeFaults, DamagedFilesPrintNothing) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  for (const ImageRecord& record : image_records()) {
    File file = record.file;
    file[file.size() / 2] ^= std::byte{0xff};
    decode_fault(file);
    mask_error(file);
    decode_fault(std::span(record.file).first(record.file.size() - 5));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace slipstream
