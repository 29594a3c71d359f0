#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>

#include "slipstream/codecs/image.h"
#include "slipstream/core/philox.h"
#include "support/image_records.h"
#include "support/jpeg_writer.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using Colors = JpegKind::Colors;
using File = std::vector<std::byte>;

/// Returns the pixels of `window` from an array with the pixels of `held`.
Levels cropped(const HostArray& image, const Window& held, const Window& window) {
  const ConstArray in = image.view();
  const Region& all = held.region;
  const Region& part = window.region;
  const std::int64_t n = window.reduction;
  const std::int64_t left = part.left / n - all.left / n;
  const std::int64_t width = (part.left + part.width + n - 1) / n - part.left / n;
  Levels levels;
  for (std::int64_t y = part.top / n; y < (part.top + part.height + n - 1) / n; ++y) {
    const auto* row = in.as<std::uint8_t>() + 3 * ((y - all.top / n) * in.shape[1] + left);
    levels.insert(levels.end(), row, row + 3 * width);
  }
  return levels;
}

std::int64_t below(RandomStream& stream, std::int64_t bound) {
  return stream.below(static_cast<std::uint32_t>(bound));
}

/// Returns a random region; half of them touch or nearly touch an edge.
Region random_region(RandomStream& stream, std::int64_t height, std::int64_t width) {
  const auto part = [&](std::int64_t side) {
    const bool is_small = below(stream, 2) == 0;
    return 1 + below(stream, is_small ? std::min<std::int64_t>(side, 18) : side);
  };
  const auto start = [&](std::int64_t free) {
    const std::int64_t from = below(stream, free + 1);
    const std::int64_t near = std::min<std::int64_t>(free, below(stream, 3));
    const std::int64_t which = below(stream, 4);
    return which == 0 ? near : which == 1 ? free - near : from;
  };
  const std::int64_t rows = part(height);
  const std::int64_t columns = part(width);
  const std::int64_t top = start(height - rows);
  return {top, start(width - columns), rows, columns};
}

struct Subject {
  JpegKind kind;
  std::int64_t height;
  std::int64_t width;
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  const std::pair<int, int> samplings[] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}};
  const std::pair<std::int64_t, std::int64_t> sizes[] = {{75, 90}, {64, 48}, {9, 130}, {131, 7}};
  for (const bool is_progressive : {false, true}) {
    for (const auto& [height, width] : sizes) {
      for (const auto& [across, down] : samplings) {
        for (const bool is_arithmetic : {false, true}) {
          const JpegKind kind = {.across = across,
                                 .down = down,
                                 .is_progressive = is_progressive,
                                 .is_arithmetic = is_arithmetic,
                                 .restart_rows = is_arithmetic ? 2 : 0};
          all.push_back({kind, height, width});
        }
      }
      all.push_back({{.colors = Colors::gray, .is_progressive = is_progressive}, height, width});
      all.push_back({{.across = 2, .down = 2, .has_scan_each = !is_progressive}, height, width});
      all.push_back({{.colors = Colors::rgb, .is_progressive = is_progressive}, height, width});
    }
  }
  return all;
}

bool contains(const Region& outer, const Region& inner) {
  return outer.top <= inner.top && outer.left <= inner.left &&
         outer.top + outer.height >= inner.top + inner.height &&
         outer.left + outer.width >= inner.left + inner.width;
}

std::string described(const Subject& subject, const Window& window) {
  const auto& [kind, height, width] = subject;
  const Region& region = window.region;
  std::ostringstream text;
  text << height << "x" << width << " sampling " << kind.across << kind.down << " progressive "
       << kind.is_progressive << " arithmetic " << kind.is_arithmetic << ": " << region.height
       << "x" << region.width << " at " << region.top << "," << region.left << " by "
       << window.reduction;
  return text.str();
}

/// Decodes `count` random windows, reduced by `reduction`, and compares them with the whole image,
/// reduced likewise.
void compare_windows(const Subject& subject, std::int64_t reduction, int count) {
  const auto& [kind, height, width] = subject;
  const int channels = kind.colors == Colors::gray ? 1 : 3;
  const File file = write_jpeg(kind, height, width, noisy_levels(height, width, channels));
  const Window all{{0, 0, height, width}, reduction};
  HostArray whole;
  if (reduction == 1) {
    decode_rgb(file, {}, whole);
  } else {
    ASSERT_EQ(decode_rgb_window(file, {}, all, whole), all);
    ASSERT_EQ(whole.view().shape, Shape({(height + reduction - 1) / reduction,
                                         (width + reduction - 1) / reduction, 3}));
  }
  RandomStream stream({.seed = 9, .sample = static_cast<std::uint64_t>(height * width)});
  HostArray part;
  for (int i = 0; i < count; ++i) {
    const Window wanted{random_region(stream, height, width), reduction};
    const auto held = decode_rgb_window(file, {}, wanted, part);
    ASSERT_TRUE(held && held->reduction == reduction) << described(subject, wanted);
    ASSERT_TRUE(contains(all.region, held->region) && contains(held->region, wanted.region));
    ASSERT_EQ(cropped(part, *held, wanted), cropped(whole, all, wanted))
        << described(subject, wanted);
  }
}

TEST(DecodeWindow, WindowEqualsCropOfTheWholeImage) {
  for (const Subject& subject : subjects()) compare_windows(subject, 1, 100);
}

TEST(DecodeWindow, ReducedWindowEqualsCropOfTheReducedImage) {
  for (const Subject& subject : subjects()) {
    for (const std::int64_t reduction : {2, 4, 8}) compare_windows(subject, reduction, 30);
  }
}

TEST(DecodeWindow, ReductionIsRoundedDownToAPowerOfTwo) {
  const File& file = image_record("rgb_420.jpg").file;
  const std::pair<std::int64_t, std::int64_t> cases[] = {{0, 1}, {1, 1}, {2, 2}, {3, 2},  {4, 4},
                                                         {7, 4}, {8, 8}, {9, 8}, {999, 8}};
  for (const auto& [asked, given] : cases) {
    HostArray out;
    const auto held = decode_rgb_window(file, {}, {{1, 2, 3, 4}, asked}, out);
    ASSERT_TRUE(held);
    EXPECT_EQ(held->reduction, given) << asked;
  }
}

TEST(DecodeWindow, DecodesOnlyAFewPixelsAroundTheWindow) {
  const JpegKind kind = {.across = 2, .down = 2};
  const File file = write_jpeg(kind, 200, 300, noisy_levels(200, 300, 3));
  HostArray out;
  const auto held = decode_rgb_window(file, {}, {{100, 100, 50, 60}}, out);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->region, (Region{99, 96, 51, 65}));
  EXPECT_EQ(out.view().shape, Shape({51, 65, 3}));
}

TEST(DecodeWindow, WholeWindowOfDamagedFileGivesWarning) {
  File file = write_jpeg({}, 64, 64, noisy_levels(64, 64, 3));
  file.insert(file.end() - 2, 40, std::byte{0x55});
  for (const std::int64_t reduction : {1, 2, 8}) {
    HostArray out;
    std::string warning;
    EXPECT_TRUE(decode_rgb_window(file, {.warning = &warning}, {{0, 0, 64, 64}, reduction}, out));
    EXPECT_THAT(warning, HasSubstr("extraneous bytes before marker 0xd9"));
    EXPECT_FALSE(decode_rgb_window(file, {.strict = true}, {{0, 0, 64, 64}, reduction}, out));
  }
}

/// Changes, removes or adds some bytes of the coded data.
void damage(File& file, RandomStream& stream) {
  const auto size = static_cast<std::int64_t>(file.size());
  const auto at = file.begin() + size / 8 + below(stream, size - size / 8 - 12);
  const std::int64_t count = 1 + below(stream, 8);
  switch (below(stream, 4)) {
    case 0:
      *at ^= static_cast<std::byte>(1 << below(stream, 8));
      break;
    case 1:
      for (std::int64_t i = 0; i < count; ++i) at[i] = static_cast<std::byte>(below(stream, 256));
      break;
    case 2:
      file.erase(at, at + count);
      break;
    default:
      file.insert(at, static_cast<std::size_t>(count), static_cast<std::byte>(below(stream, 256)));
  }
}

/// Compares windows of damaged files with the whole images; returns the number of decoded windows.
int compare_damaged(const Subject& subject, int files) {
  const auto& [kind, height, width] = subject;
  const int channels = kind.colors == Colors::gray ? 1 : 3;
  const File good = write_jpeg(kind, height, width, noisy_levels(height, width, channels));
  RandomStream stream({.seed = 3, .sample = static_cast<std::uint64_t>(height * width)});
  int decoded = 0;
  for (int i = 0; i < files; ++i) {
    File file = good;
    damage(file, stream);
    HostArray whole, part;
    const std::string fault = thrown_by([&] { decode_rgb(file, {}, whole); });
    for (int k = 0; k < 4; ++k) {
      const Window wanted{random_region(stream, height, width)};
      std::optional<Window> held;
      const std::string now = thrown_by([&] { held = decode_rgb_window(file, {}, wanted, part); });
      if (now == "nothing" && !held) continue;
      EXPECT_EQ(now, fault) << described(subject, wanted);
      if (now != "nothing" || fault != "nothing") continue;
      EXPECT_EQ(cropped(part, *held, wanted), cropped(whole, {{0, 0, height, width}}, wanted))
          << described(subject, wanted);
      ++decoded;
    }
  }
  return decoded;
}

TEST(DecodeWindow, DamagedFileGivesPixelsOrErrorOfTheWholeImage) {
  int decoded = 0;
  for (const Subject& subject : subjects()) decoded += compare_damaged(subject, 40);
  EXPECT_GT(decoded, 1000);
}

TEST(DecodeWindow, UnsupportedFilesReturnNoWindow) {
  const auto is_read = [](const File& file) {
    HostArray out;
    return decode_rgb_window(file, {}, {{1, 2, 3, 4}}, out).has_value();
  };
  EXPECT_TRUE(is_read(image_record("rgb_420.jpg").file));
  EXPECT_TRUE(is_read(image_record("exif_1.jpg").file));
  EXPECT_FALSE(is_read(image_record("exif_3.jpg").file));
  EXPECT_FALSE(is_read(image_record("cmyk.jpg").file));
  EXPECT_FALSE(is_read(image_record("rgb.png").file));
  EXPECT_FALSE(is_read(write_jpeg({.across = 4}, 20, 20, noisy_levels(20, 20, 3))));
  const JpegKind progressive = {.is_progressive = true};
  File file = write_jpeg(progressive, 20, 20, noisy_levels(20, 20, 3));
  EXPECT_TRUE(is_read(file));
  const std::array<std::byte, 2> scan = {std::byte{0xff}, std::byte{0xda}};
  const auto last = std::find_end(file.begin(), file.end(), scan.begin(), scan.end());
  file.erase(last, file.end() - 2);
  EXPECT_FALSE(is_read(file));
}

TEST(DecodeWindow, TruncatedFileReturnsNoWindowOrThrows) {
  const File& file = image_record("rgb_420.jpg").file;
  for (std::size_t size = 0; size < file.size(); ++size) {
    const auto cut = std::span(file).first(size);
    HostArray out;
    bool is_read = false;
    const std::string error = thrown_by([&] {
      is_read = decode_rgb_window(cut, {}, {{0, 0, 1, 1}}, out).has_value();
    });
    ASSERT_FALSE(is_read && error == "nothing") << size;
  }
}

TEST(DecodeWindow, RegionOutsideTheImageThrows) {
  const File& file = image_record("rgb_420.jpg").file;
  const auto error = [&](const Region& region) {
    HostArray out;
    return thrown_by([&] { decode_rgb_window(file, {}, {region}, out); });
  };
  EXPECT_EQ(error({0, 0, 13, 21}), "nothing");
  EXPECT_EQ(error({1, 2, 13, 3}),
            "Error: the part to decode, 13 x 3 pixels at (1, 2), is outside the image of 13 x 21; "
            "choose a region inside the image");
  for (const Region& region :
       {Region{-1, 0, 2, 2}, {0, 20, 2, 2}, {0, 0, 0, 2}, {0, 0, 2, -1}, {INT64_MAX, 0, 2, 2}}) {
    EXPECT_THAT(error(region), HasSubstr("is outside the image"));
  }
  HostArray out;
  EXPECT_THAT(thrown_by([&] {
                decode_rgb_window(file, {.pixel_limit = 9}, {{0, 0, 1, 1}}, out);
              }),
              HasSubstr("over the limit of 9"));
}

}  // namespace
}  // namespace slipstream
