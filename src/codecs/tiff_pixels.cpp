#include "codecs/tiff_pixels.h"

#include <algorithm>
#include <cstring>

namespace slipstream::tiff {
namespace {

/// Unpacks sample `i` of a row. libtiff returns 16 bits in this machine's byte order.
std::uint16_t unpack(const std::byte* row, std::size_t i, std::uint32_t bits) {
  if (bits == 8) return std::to_integer<std::uint8_t>(row[i]);
  if (bits == 16) {
    std::uint16_t value = 0;
    std::memcpy(&value, row + 2 * i, sizeof(value));
    return value;
  }
  const std::size_t per_byte = 8 / bits;
  const auto shift = static_cast<std::uint32_t>(8 - bits * (i % per_byte + 1));
  const auto byte = std::to_integer<std::uint32_t>(row[i / per_byte]);
  return static_cast<std::uint16_t>(byte >> shift & ((1U << bits) - 1));
}

}  // namespace

void PixelConverter::add(const std::byte* row, std::size_t pixels, std::uint16_t plane) {
  const std::size_t samples = layout_.samples;
  if (samples_.size() < pixels * samples) samples_.resize(pixels * samples);
  // Levels of 1, 2 and 4 bits become levels of 8 bits, but the indices of a palette stay.
  const bool is_index = layout_.photometric == PHOTOMETRIC_PALETTE;
  const std::uint32_t factor = layout_.bits >= 8 || is_index ? 1 : 255 / ((1U << layout_.bits) - 1);
  const std::size_t count = layout_.is_planar ? pixels : pixels * samples;
  const std::size_t step = layout_.is_planar ? samples : 1;
  std::uint16_t* to = samples_.data() + plane;
  for (std::size_t i = 0; i < count; ++i, to += step)
    *to = static_cast<std::uint16_t>(unpack(row, i, layout_.bits) * factor);
}

/// Returns a color in the range of the samples, before alpha.
std::uint32_t PixelConverter::color(const std::uint16_t* samples, std::size_t c,
                                    std::uint32_t most) const {
  switch (layout_.photometric) {
    case PHOTOMETRIC_MINISWHITE:
      return most - samples[0];
    case PHOTOMETRIC_MINISBLACK:
      return samples[0];
    case PHOTOMETRIC_PALETTE:
      return palette_[samples[0]][c];
    default:
      return samples[c];
  }
}

/// kMost is the largest level, a constant so that no division by a variable is needed.
template <std::uint32_t kMost>
void PixelConverter::convert(const std::uint16_t* samples, std::uint8_t* rgb) const {
  constexpr std::uint64_t kWide = kMost, kPerLevel = kWide / 255;
  constexpr std::uint64_t kDivisor = kWide * kWide * kPerLevel;
  const bool is_cmyk = layout_.photometric == PHOTOMETRIC_SEPARATED;
  const std::uint64_t alpha = layout_.alpha == 0 ? kWide : samples[layout_.alpha];
  for (std::size_t c = 0; c < 3; ++c) {
    // 0 means no ink, unlike in the CMYK of JPEG files.
    const std::uint64_t value =
        is_cmyk ? (kWide - samples[c]) * (kWide - samples[3]) : color(samples, c, kMost) * kWide;
    const std::uint64_t drawn = value * (layout_.is_premultiplied ? kWide : alpha) +
                                (kWide - alpha) * kWide * kPerLevel * background_[c];
    // Divides once, to round once. In a damaged file a premultiplied color can exceed its alpha, so
    // the result is clamped.
    const std::uint64_t level = (drawn + kDivisor / 2) / kDivisor;
    rgb[c] = static_cast<std::uint8_t>(std::min<std::uint64_t>(level, 255));
  }
}

void PixelConverter::to_rgb(std::size_t pixels, std::uint8_t* rgb) const {
  const std::uint16_t* samples = samples_.data();
  for (std::size_t i = 0; i < pixels; ++i, samples += layout_.samples, rgb += 3) {
    if (layout_.bits == 16)
      convert<65535>(samples, rgb);
    else
      convert<255>(samples, rgb);
  }
}

}  // namespace slipstream::tiff
