#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "slipstream/codecs/image.h"
#include "support/image_records.h"
#include "support/jpeg_writer.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Colors = JpegKind::Colors;
using File = std::vector<std::byte>;

constexpr std::int64_t kHeight = 37;
constexpr std::int64_t kWidth = 45;

Levels decoded(const File& file) {
  HostArray out;
  decode_rgb(file, {}, out);
  return copy_levels(out);
}

std::string decode_error(const File& file) {
  return thrown_by([&] { decoded(file); });
}

int largest_difference(const Levels& a, const Levels& b) {
  int largest = a.size() == b.size() ? 0 : 256;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

std::size_t find_frame(const File& file) {
  const std::byte start[] = {std::byte{0xff}, std::byte{0xc0}};
  return static_cast<std::size_t>(
      std::search(file.begin(), file.end(), std::begin(start), std::end(start)) - file.begin());
}

// Huffman and arithmetic coding store the same coefficients, so the pixels are equal.
TEST(JpegKinds, ArithmeticProgressiveAndScanLayoutsGiveSamePixels) {
  for (const Colors colors : {Colors::gray, Colors::ycc, Colors::cmyk}) {
    const int channels = colors == Colors::gray ? 1 : colors == Colors::ycc ? 3 : 4;
    const Levels levels = noisy_levels(kHeight, kWidth, channels);
    const Levels plain = decoded(write_jpeg({.colors = colors}, kHeight, kWidth, levels));
    for (const bool is_progressive : {false, true}) {
      for (const bool is_arithmetic : {false, true}) {
        const JpegKind kind = {
            .colors = colors, .is_progressive = is_progressive, .is_arithmetic = is_arithmetic};
        EXPECT_EQ(decoded(write_jpeg(kind, kHeight, kWidth, levels)), plain)
            << channels << is_progressive << is_arithmetic;
      }
    }
    if (channels == 1) continue;
    const JpegKind apart = {.colors = colors, .has_scan_each = true};
    EXPECT_EQ(decoded(write_jpeg(apart, kHeight, kWidth, levels)), plain) << channels;
  }
}

Levels inks_to_rgb(const Levels& inks) {
  Levels levels;
  for (std::size_t i = 0; i < inks.size(); i += 4) {
    for (std::size_t c = 0; c < 3; ++c) {
      levels.push_back(static_cast<std::uint8_t>((inks[i + c] * inks[i + 3] + 127) / 255));
    }
  }
  return levels;
}

TEST(JpegKinds, CmykIsConvertedToRgbWithOrWithoutAdobeMarker) {
  Levels inks(kHeight * kWidth * 4);
  for (std::size_t i = 0; i < inks.size(); ++i) {
    inks[i] = static_cast<std::uint8_t>(i / 4 % kWidth * 4 + i % 4 * 20);
  }
  for (const Colors colors : {Colors::cmyk, Colors::ycck}) {
    const JpegKind kind = {.colors = colors, .quality = 100};
    const Levels levels = decoded(write_jpeg(kind, kHeight, kWidth, inks));
    EXPECT_LE(largest_difference(levels, inks_to_rgb(inks)), 4);
  }
  const JpegKind unmarked = {.colors = Colors::cmyk, .has_adobe_marker = false, .quality = 100};
  const File file = write_jpeg(unmarked, kHeight, kWidth, inks);
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  ASSERT_EQ(text.find("Adobe"), std::string_view::npos);
  EXPECT_LE(largest_difference(decoded(file), inks_to_rgb(inks)), 4);
}

TEST(JpegKinds, GrayDecodesToEqualRgbLevels) {
  const Levels levels = noisy_levels(kHeight, kWidth, 1);
  const Levels rgb = decoded(write_jpeg({.colors = Colors::gray}, kHeight, kWidth, levels));
  for (std::size_t i = 0; i < rgb.size(); i += 3) {
    ASSERT_EQ(rgb[i], rgb[i + 1]);
    ASSERT_EQ(rgb[i], rgb[i + 2]);
  }
}

TEST(JpegKinds, UnsupportedJpegKindsAreNamedInTheError) {
  File file = write_jpeg({}, kHeight, kWidth, noisy_levels(kHeight, kWidth, 3));
  const std::size_t frame = find_frame(file);
  file[frame + 4] = std::byte{12};
  EXPECT_EQ(
      decode_error(file),
      "Error: this JPEG is of 12 bits per channel, which libjpeg-turbo cannot decode; convert "
      "it to 8 bits, baseline or progressive");
  EXPECT_EQ(image_shape(file), Shape({kHeight, kWidth, 3}));
  file[frame + 1] = std::byte{0xc3};
  EXPECT_THAT(decode_error(file), HasSubstr("this JPEG is lossless"));
  file[frame + 1] = std::byte{0xc5};
  EXPECT_THAT(decode_error(file), HasSubstr("this JPEG is hierarchical"));
}

/// Returns image_record(`name`) with an EXIF segment that has `bytes` at offset `at` from its "II"
/// or "MM".
File with_exif(const char* name, std::size_t at, std::initializer_list<unsigned> bytes) {
  File file = image_record(name).file;
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  at += text.find("Exif") + 6;
  for (const unsigned byte : bytes) file.at(at++) = static_cast<std::byte>(byte);
  return file;
}

// Offsets in the EXIF data: 0 byte order, 4 directory, 8 number of entries, 10 first entry, 22 its
// value, the orientation.
TEST(JpegOrientation, InvalidExifOrientationIsIgnored) {
  const Shape stored = {13, 21, 3};
  const Shape turned = {21, 13, 3};
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 0, {})), turned);
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 0, {'X'})), stored);
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 2, {43})), stored);
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 4, {0xff, 0xff, 0xff, 0xff})), stored);
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 4, {60, 0, 0, 0})), stored);
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 8, {0xff, 0xff})), turned);
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 8, {1})), stored);
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 24, {3})), turned);  // type SHORT
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 24, {4})), turned);  // type LONG
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 24, {4, 0, 1, 0, 0, 0, 5, 0, 1, 0})), stored);
  EXPECT_EQ(image_shape(with_exif("exif_6.jpg", 24, {0, 4, 0, 0, 0, 1, 0, 0, 0, 6})), turned);
  EXPECT_EQ(image_shape(with_exif("exif_6.jpg", 24, {0, 4, 0, 0, 0, 1, 0, 6, 0, 0})), stored);
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 24, {5})), stored);  // any other type
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 26, {2})), stored);  // two values instead of one
  // a value that is not an orientation
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 30, {0})), stored);
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 30, {9})), stored);
  EXPECT_EQ(image_shape(with_exif("exif_5.jpg", 30, {5, 1})), stored);
  EXPECT_EQ(image_shape(with_exif("exif_6.jpg", 31, {7})), turned);
  EXPECT_EQ(image_shape(with_exif("exif_6.jpg", 31, {3})), stored);
  EXPECT_EQ(decode_error(with_exif("exif_5.jpg", 30, {9})), "nothing");
}

}  // namespace
}  // namespace slipstream
