#include "cli/plain_transforms.h"

#include <algorithm>
#include <string>
#include <vector>

#include "slipstream/core/error.h"
#include "transforms/best_code.h"
#include "transforms/geometry.h"
#include "transforms/mask_math.h"
#include "transforms/pointwise.h"

namespace slipstream {
namespace {

RandomKey one_place_before(RandomKey key) {
  --key.operation;
  return key;
}

void require_levels(std::string_view op, const FieldSpec& in) {
  if (in.dtype == DType::uint8 && in.shape.rank == 3 && in.shape[2] == 3) return;
  throw Refused(std::string(op) + ": image '" + in.name + "' is " +
                std::string(to_string(in.dtype)) + ", " + to_string(in.shape) +
                "; it must be uint8 of three channels");
}

/// Generates a random number from 0 to 1 for each pixel.
std::vector<float> chances(const RandomWords& key, std::int64_t height, std::int64_t width) {
  std::vector<float> chance(static_cast<std::size_t>(height * width));
  const std::int64_t blocks = blocks_of_row(width);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t b = 0; b < blocks; ++b) {
      const PhiloxWords words = mask_words(key, static_cast<std::uint32_t>(y * blocks + b));
      const std::int64_t first = b * kMaskPixels;
      for (std::int64_t k = 0; k < std::min<std::int64_t>(kMaskPixels, width - first); ++k) {
        const std::uint32_t bits = words.word[k / 2] >> (k % 2 * 16) & 0xFFFFU;
        chance[static_cast<std::size_t>(y * width + first + k)] =
            static_cast<float>(bits) * 0x1p-16F;
      }
    }
  }
  return chance;
}

std::vector<std::uint8_t> below(const std::vector<float>& chance, float probability) {
  std::vector<std::uint8_t> masked(chance.size());
  for (std::size_t i = 0; i < chance.size(); ++i) masked[i] = chance[i] < probability ? 1 : 0;
  return masked;
}

std::vector<std::uint8_t> grown(const std::vector<std::uint8_t>& masked, std::int64_t height,
                                std::int64_t width) {
  std::vector<std::uint8_t> result = masked;
  const auto grow = [&](std::int64_t from, std::int64_t to) {
    result[static_cast<std::size_t>(to)] |= masked[static_cast<std::size_t>(from)];
  };
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t at = y * width + x;
      if (y > 0) grow(at - width, at);
      if (y + 1 < height) grow(at + width, at);
      if (x > 0) grow(at - 1, at);
      if (x + 1 < width) grow(at + 1, at);
    }
  }
  return result;
}

}  // namespace

FieldSpec PlainToTensor::output(const FieldSpec& in) const {
  require_levels(kName, in);
  return in;
}

void PlainToTensor::apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
  copy_all(in, out);
}

PlainCrop::Drawn PlainCrop::draw(const RandomKey& key, const Shape& shape) const {
  return crop.draw(one_place_before(key), shape);
}

FieldSpec PlainMask::output(const FieldSpec& in) const {
  require_levels(kName, in);
  return in;
}

PlainMask::Drawn PlainMask::draw(const RandomKey& key, const Shape& shape) const {
  return RandomMask::draw(one_place_before(key), shape);
}

void PlainMask::apply(const Drawn& drawn, FieldKind, ConstArray in, MutableArray out,
                      Scratch&) const {
  const std::int64_t height = in.shape[0];
  const std::int64_t width = in.shape[1];
  const auto probability = static_cast<float>(threshold()) * 0x1p-16F;
  const auto masked = grown(below(chances(drawn.key, height, width), probability), height, width);
  const auto* from = in.as<std::uint8_t>();
  auto* to = out.as<std::uint8_t>();
  for (std::size_t i = 0; i < masked.size(); ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      to[3 * i + c] = masked[i] != 0 ? std::uint8_t{0} : from[3 * i + c];
    }
  }
}

FieldSpec PlainColor::output(const FieldSpec& in) const {
  require_levels(kName, in);
  return ConvertColor::output(in);
}

void PlainColor::apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
  const auto* levels = in.as<std::uint8_t>();
  const std::vector<float> pixels(levels, levels + in.shape.elements());
  const ColorMatrix by = to_float32(*this);
  auto* to = out.as<float>();
  // With AVX2 code, std::fma compiles to an instruction instead of a function call.
  with_best_code([&] {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t i = 0; i < pixels.size(); i += 3) {
        const float red = fused(by.row[c][0], pixels[i], by.offset[c]);
        const float red_green = fused(by.row[c][1], pixels[i + 1], red);
        to[i + c] = fused(by.row[c][2], pixels[i + 2], red_green);
      }
    }
  });
}

}  // namespace slipstream
