#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "data/image_records.h"
#include "data/jpeg_writer.h"
#include "slipstream/image.h"
#include "slipstream/philox.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Colours = JpegKind::Colours;
using File = std::vector<std::byte>;

Levels cropped(const HostArray& image, const Region& region) {
  const ConstArray in = image.view();
  Levels levels;
  for (std::int64_t y = region.top; y < region.top + region.height; ++y) {
    const auto* row = in.as<std::uint8_t>() + 3 * (y * in.shape[1] + region.left);
    levels.insert(levels.end(), row, row + 3 * region.width);
  }
  return levels;
}

std::int64_t below(RandomStream& stream, std::int64_t bound) {
  return stream.below(static_cast<std::uint32_t>(bound));
}

/// Any region, and as often one that touches or nearly touches an edge.
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
      all.push_back({{.colours = Colours::grey, .is_progressive = is_progressive}, height, width});
      all.push_back({{.colours = Colours::rgb, .is_progressive = is_progressive}, height, width});
    }
  }
  return all;
}

TEST(DecodeRegion, HasTheBitsOfTheWholeImage) {
  std::uint64_t number = 0;
  for (const auto& [kind, height, width] : subjects()) {
    const int channels = kind.colours == Colours::grey ? 1 : 3;
    const File file = write_jpeg(kind, height, width, noisy_levels(height, width, channels));
    HostArray whole;
    decode_rgb(file, {}, whole);
    RandomStream stream({.seed = 9, .sample = number++});
    HostArray part;
    for (int i = 0; i < 100; ++i) {
      const Region region = random_region(stream, height, width);
      ASSERT_TRUE(decode_rgb_region(file, {}, region, part));
      ASSERT_EQ(part.view().shape, Shape({region.height, region.width, 3}));
      ASSERT_EQ(levels_of(part), cropped(whole, region))
          << height << "x" << width << " sampling " << kind.across << kind.down << " progressive "
          << kind.is_progressive << " arithmetic " << kind.is_arithmetic << ": " << region.height
          << "x" << region.width << " at " << region.top << "," << region.left;
    }
  }
}

TEST(DecodeRegion, LeavesOtherFilesToBeDecodedWhole) {
  const auto is_read = [](const File& file) {
    HostArray out;
    return decode_rgb_region(file, {}, {1, 2, 3, 4}, out);
  };
  EXPECT_TRUE(is_read(image_record("rgb_420.jpg").file));
  EXPECT_TRUE(is_read(image_record("exif_1.jpg").file));
  EXPECT_FALSE(is_read(image_record("exif_3.jpg").file));
  EXPECT_FALSE(is_read(image_record("cmyk.jpg").file));
  EXPECT_FALSE(is_read(image_record("rgb.png").file));
  EXPECT_FALSE(is_read(write_jpeg({.across = 4}, 20, 20, noisy_levels(20, 20, 3))));
}

TEST(DecodeRegion, AFileCutShortIsNeverDecodedInPart) {
  const File& file = image_record("rgb_420.jpg").file;
  for (std::size_t size = 0; size < file.size(); ++size) {
    const auto cut = std::span(file).first(size);
    HostArray out;
    bool is_read = false;
    const std::string error = thrown_by([&] {
      is_read = decode_rgb_region(cut, {}, {0, 0, 1, 1}, out);
    });
    ASSERT_FALSE(is_read && error == "nothing") << size;
  }
}

TEST(DecodeRegion, DamageIsAnError) {
  File file = write_jpeg({}, 64, 64, noisy_levels(64, 64, 3));
  file[file.size() / 2] = std::byte{0xff};
  file[file.size() / 2 + 1] = std::byte{0xd9};
  HostArray out;
  EXPECT_THAT(thrown_by([&] {
                decode_rgb_region(file, {}, {60, 0, 4, 64}, out);
              }),
              StartsWith("Error: broken JPEG: "));
}

TEST(DecodeRegion, ARegionOutsideOfTheImageIsAnError) {
  const File& file = image_record("rgb_420.jpg").file;
  const auto error = [&](const Region& region) {
    HostArray out;
    return thrown_by([&] { decode_rgb_region(file, {}, region, out); });
  };
  EXPECT_EQ(error({0, 0, 13, 21}), "nothing");
  EXPECT_EQ(error({1, 2, 13, 3}),
            "Error: the part to decode, 13 x 3 pixels at (1, 2), does not lie in the image of 13 x "
            "21; crop within it");
  for (const Region& region :
       {Region{-1, 0, 2, 2}, {0, 20, 2, 2}, {0, 0, 0, 2}, {0, 0, 2, -1}, {INT64_MAX, 0, 2, 2}}) {
    EXPECT_THAT(error(region), HasSubstr("does not lie in the image"));
  }
  HostArray out;
  EXPECT_THAT(thrown_by([&] {
                decode_rgb_region(file, {.pixel_limit = 9}, {0, 0, 1, 1}, out);
              }),
              HasSubstr("over the limit of 9"));
}

}  // namespace
}  // namespace slipstream
