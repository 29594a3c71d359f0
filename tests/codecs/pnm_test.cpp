#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "slipstream/codecs/image.h"
#include "support/image_records.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

std::string decoded(const std::string& file, HostArray& out) {
  return thrown_by([&] { decode_rgb(std::as_bytes(std::span(file)), {}, out); });
}

Levels levels(const std::string& file) {
  HostArray out;
  EXPECT_EQ(decoded(file, out), "nothing") << file;
  return copy_levels(out);
}

TEST(Pnm, BinaryAndTextFormsDecodeToSamePixels) {
  const Levels color = {1, 2, 3, 255, 0, 4};
  EXPECT_EQ(levels("P6 2 1 255\n\x01\x02\x03\xff\0\x04"s), color);
  EXPECT_EQ(levels("P3\n# by hand\n2 1\n255\n1 2 3 # one\n255 0 4\n"), color);
  const Levels gray = {7, 7, 7, 9, 9, 9};
  EXPECT_EQ(levels("P5\n1 2\n255\n\x07\x09"), gray);
  EXPECT_EQ(levels("P2 1 2 255 7 9"), gray);
}

TEST(Pnm, LevelsAreScaledToMaximumAsInPil) {
  EXPECT_EQ(levels("P2 4 1 10 0 1 3 10"), Levels({0, 0, 0, 26, 26, 26, 76, 76, 76, 255, 255, 255}));
  EXPECT_EQ(levels("P6 1 1 65535\n\xff\xff\x80\0\0\0"s), Levels({255, 128, 0}));
}

TEST(Pnm, FormatAndShapeAreReadFromTheHeader) {
  const std::string file = "P5 3 2 255 123456";
  const auto bytes = std::as_bytes(std::span(file));
  EXPECT_EQ(image_format(bytes), ImageFormat::pnm);
  EXPECT_EQ(image_shape(bytes), Shape({2, 3, 1}));
}

TEST(Pnm, DamagedFileThrows) {
  HostArray out;
  EXPECT_THAT(decoded("P6 2 1 255 12345", out), HasSubstr("broken PNM: it ends early"));
  EXPECT_THAT(decoded("P3 2 1 255 1 2 3", out), HasSubstr("broken PNM: it ends early"));
  EXPECT_THAT(decoded("P5 2", out), HasSubstr("broken PNM: it ends early"));
  EXPECT_THAT(decoded("P2 1 1 9 10", out), HasSubstr("a level is above 9"));
  EXPECT_THAT(decoded("P2 1 1 70000 1", out), HasSubstr("a number is above 65535"));
  EXPECT_THAT(decoded("P2 1 1 0 1", out), HasSubstr("its largest level is 0"));
  EXPECT_THAT(decoded("P2 a 1 0 1", out), HasSubstr("where a number should be"));
  EXPECT_THAT(decoded("P6 60000 60000 255 1", out), HasSubstr("over the limit"));
  EXPECT_THAT(decoded("P5 0 3 255 1", out), HasSubstr("the image has no pixels"));
}

TEST(Pnm, PnmMaskThrows) {
  const std::string file = "P5 1 1 255 1";
  HostArray out;
  EXPECT_THAT(thrown_by([&] { decode_mask(std::as_bytes(std::span(file)), {}, out); }),
              HasSubstr("a mask must be PNG"));
}

}  // namespace
}  // namespace slipstream
