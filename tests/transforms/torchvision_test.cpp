#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <string>

#include "op_runner.h"
#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "support/source_folder.h"

// Compares with torchvision where both define the same; docs/transforms.md describes the
// differences.
namespace slipstream {
namespace {

struct GoldenFile {
  Shape shape;
  std::vector<float> values;
};

const GoldenFile& golden(const std::string& name) {
  static const std::map<std::string, GoldenFile> kAll = [] {
    std::map<std::string, GoldenFile> read;
    std::ifstream file(golden_folder() / "torchvision.bin", std::ios::binary);
    char of[33] = {};
    std::int32_t size[2];
    while (file.read(of, 32) && file.read(reinterpret_cast<char*>(size), sizeof(size))) {
      GoldenFile& next = read[of];
      next.shape = {size[0], size[1], 3};
      next.values.resize(next.shape.elements());
      file.read(reinterpret_cast<char*>(next.values.data()),
                static_cast<std::streamsize>(next.values.size() * sizeof(float)));
    }
    return read;
  }();
  return kAll.at(name);
}

// golden/make_torchvision.py has a copy of this generator.
Pixels<std::uint8_t> levels() {
  Pixels<std::uint8_t> image{DType::uint8, {24, 33, 3}, {}};
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < image.shape.elements(); ++i) {
    state = state * 1664525 + 1013904223;
    image.values.push_back(static_cast<std::uint8_t>(state >> 24));
  }
  return image;
}

Pixels<float> floats() {
  return applied<float>(ToDtype{.scale = true}, {}, FieldKind::image, levels());
}

/// Returns the largest difference, or infinity if the shapes differ.
template <typename T>
float difference(const Pixels<T>& mine, const std::string& name) {
  const GoldenFile& theirs = golden(name);
  if (!(mine.shape == theirs.shape)) return HUGE_VALF;
  float most = 0;
  for (std::size_t i = 0; i < theirs.values.size(); ++i) {
    most = std::max(most, std::abs(static_cast<float>(mine.values[i]) - theirs.values[i]));
  }
  return most;
}

/// Returns the difference for an operation whose result is not random.
template <typename Op>
float golden_difference(const Op& op, const std::string& name) {
  const auto image = floats();
  return difference(applied<float>(op, op.draw(make_key(1), image.shape), FieldKind::image, image),
                    name);
}

template <typename Op>
float levels_apart(const Op& op, const std::string& name) {
  const auto image = levels();
  return difference(
      applied<std::uint8_t>(op, op.draw(make_key(1), image.shape), FieldKind::image, image), name);
}

// torchvision multiplies levels by 1 / 255 instead of dividing by 255, which may change the last
// bit.
constexpr float kLastBit = 0x1p-24F;

TEST(Torchvision, PixelMovesMatchToTheLastBit) {
  EXPECT_LE(difference(floats(), "to_float"), kLastBit);
  EXPECT_LE(golden_difference(RandomHorizontalFlip{1}, "horizontal_flip"), kLastBit);
  EXPECT_LE(golden_difference(RandomVerticalFlip{1}, "vertical_flip"), kLastBit);
  EXPECT_LE(golden_difference(CenterCrop{{10, 13}}, "center_crop"), kLastBit);
  EXPECT_LE(golden_difference(RandomRotation{{33.3, 33.3}, Interpolation::nearest, 0.25}, "rotate"),
            kLastBit);
  const RandomAffine affine{
      .degrees = {-20.5, -20.5}, .scale = {0.8, 0.8}, .shear = {7, 7, -4, -4}, .fill = 0.25};
  EXPECT_LE(golden_difference(affine, "affine"), kLastBit);
}

TEST(Torchvision, InterpolationMatchesUpToRounding) {
  EXPECT_LE(golden_difference(Resize{{37, 11}, false}, "resize"), 4e-7F);
  EXPECT_LE(golden_difference(Resize{{9, 40}}, "resize antialias"), 1e-6F);
  EXPECT_LE(
      golden_difference(RandomRotation{{33.3, 33.3}, Interpolation::bilinear}, "rotate bilinear"),
      1e-5F);
  const RandomAffine affine{.degrees = {-20.5, -20.5},
                            .scale = {1.3, 1.3},
                            .shear = {7, 7, -4, -4},
                            .interpolation = Interpolation::bilinear};
  EXPECT_LE(golden_difference(affine, "affine bilinear"), 1e-5F);
  EXPECT_LE(golden_difference(GaussianBlur{5, {1.3, 1.3}}, "gaussian_blur"), 4e-7F);
}

TEST(Torchvision, FloatColorOperationsMatchUpToRounding) {
  const Normalize normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  EXPECT_LE(golden_difference(normalize, "normalize"), 1e-6F);
  EXPECT_LE(golden_difference(ColorJitter{.brightness = {1.3, 1.3}}, "brightness"), 2e-7F);
  EXPECT_LE(golden_difference(ColorJitter{.contrast = {0.7, 0.7}}, "contrast"), 1e-6F);
  EXPECT_LE(golden_difference(ColorJitter{.saturation = {1.6, 1.6}}, "saturation"), 4e-7F);
  EXPECT_LE(golden_difference(ColorJitter{.hue = {0.2, 0.2}}, "hue"), 1e-5F);
  EXPECT_LE(golden_difference(Grayscale{3}, "grayscale"), 2e-7F);
}

TEST(Torchvision, Uint8ColorOperationsDifferByAtMostTwo) {
  EXPECT_LE(levels_apart(GaussianBlur{5, {1.3, 1.3}}, "gaussian_blur u8"), 1);
  EXPECT_LE(levels_apart(ColorJitter{.brightness = {1.3, 1.3}}, "brightness u8"), 1);
  EXPECT_LE(levels_apart(ColorJitter{.contrast = {0.7, 0.7}}, "contrast u8"), 1);
  EXPECT_LE(levels_apart(ColorJitter{.saturation = {1.6, 1.6}}, "saturation u8"), 2);
  EXPECT_LE(levels_apart(ColorJitter{.hue = {0.2, 0.2}}, "hue u8"), 2);
  EXPECT_LE(levels_apart(Grayscale{3}, "grayscale u8"), 1);
}

}  // namespace
}  // namespace slipstream
