#include "tools/shown_image.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "slipstream/transforms/color.h"
#include "slipstream/transforms/transforms.h"
#include "support/array_values.h"

namespace slipstream {
namespace {

/// With three channels, every level occurs in each channel.
HostArray make_image(std::int64_t channels) {
  return counting<std::uint8_t>(DType::uint8, {16, 16, channels});
}

/// A user-defined operation that converts levels to floats like ToDtype.
struct OwnFloats : ToDtype {
  static constexpr std::string_view kName = "own_floats";
};

std::vector<std::byte> bytes_of_rgb(const ConstArray& image, const ShownLevels& levels) {
  const HostArray rgb = convert_to_rgb(image, levels);
  const auto bytes = as_bytes(rgb.view());
  return {bytes.begin(), bytes.end()};
}

/// Returns what is shown of `image` after a chain without random operations.
std::vector<std::byte> shown_after(const std::vector<NamedOp>& chain, const HostArray& image) {
  FieldSpec spec = {"image", FieldKind::image, DType::uint8, image.view().shape, 0};
  const ShownLevels levels = levels_after(chain, spec);
  Sample sample;
  sample.fields.resize(1);
  sample.fields[0].array.assign(image.view());
  std::vector<HostArray> spare(1);
  Scratch scratch;
  for (const auto& [name, op] : chain) op.apply({}, {&spec, 1}, sample, spare, scratch);
  return bytes_of_rgb(sample.fields[0].array.view(), levels);
}

const NamedOp kNormalize = {"once", Normalize{{0.5, 0.4, 0.3}, {0.2, 0.3, 0.1}}};
const NamedOp kAgain = {"again", Normalize{{0.1, 0.2, 0.6}, {3, 4, 5}}};
const NamedOp kDivide = {"divide", Divide{100}};
const NamedOp kSame = {"same", ConvertColor{{1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}}};
const NamedOp kFloats = {"floats", ToDtype{.scale = true}};
const NamedOp kFloatLevels = {"levels", ToDtype{}};

TEST(LevelsTest, NumericTransformsAreUndone) {
  const std::vector<NamedOp> chains[] = {{kFloats},
                                         {kFloats, kFloatLevels},
                                         {{"own", OwnFloats{{.scale = true}}}},
                                         {kFloatLevels},
                                         {kFloatLevels, kDivide, kNormalize},
                                         {kNormalize},
                                         {kNormalize, kAgain},
                                         {kFloats, kNormalize},
                                         {kDivide},
                                         {kDivide, kNormalize},
                                         {kFloats, kNormalize, kDivide},
                                         {kSame},
                                         {kSame, kDivide, kNormalize},
                                         {kFloats, kSame, kNormalize}};
  const HostArray image = make_image(3);
  for (const std::vector<NamedOp>& chain : chains)
    EXPECT_EQ(shown_after(chain, image), shown_after({}, image)) << chain.front().name;
}

TEST(LevelsTest, NormalizeIsUndonePerChannel) {
  const Normalize four = {{0.5, 0.4, 0.3, 0.2}, {0.2, 0.3, 0.1, 4}};
  const Normalize one = {{0.5}, {0.2}};
  EXPECT_EQ(shown_after({{"four", four}}, make_image(4)), shown_after({}, make_image(4)));
  EXPECT_EQ(shown_after({{"one", one}}, make_image(1)), shown_after({}, make_image(1)));
  EXPECT_EQ(shown_after({{"one", one}}, make_image(3)), shown_after({}, make_image(3)));
}

TEST(LevelsTest, FloatsAreRoundedAndClamped) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::pair<float, int> cases[] = {{-0.5F, 0},      {0.4F / 255, 0},   {0.6F / 255, 1},
                                         {0.5F, 128},     {1.5F, 255},       {kInfinity, 255},
                                         {-kInfinity, 0}, {std::nanf(""), 0}};
  for (const auto& [value, level] : cases) {
    HostArray image;
    *image.reset(DType::float32, {1, 1, 1}).as<float>() = value;
    EXPECT_EQ(bytes_of_rgb(image.view(), {}).front(), static_cast<std::byte>(level)) << value;
  }
}

TEST(LevelsTest, OneOrTwoChannelsAreGrayAndTheFourthIsIgnored) {
  const std::vector<std::vector<int>> shown = {
      {0, 0, 0, 1, 1, 1}, {0, 0, 0, 2, 2, 2}, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 4, 5, 6}};
  for (std::int64_t channels = 1; channels <= 4; ++channels) {
    const HostArray image = counting<std::uint8_t>(DType::uint8, {1, 2, channels});
    std::vector<int> levels;
    for (const std::byte level : bytes_of_rgb(image.view(), {}))
      levels.push_back(std::to_integer<int>(level));
    EXPECT_EQ(levels, shown[static_cast<std::size_t>(channels - 1)]);
  }
}

}  // namespace
}  // namespace slipstream
