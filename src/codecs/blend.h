#pragma once

#include <cstdint>

#include "slipstream/codecs/image.h"

namespace slipstream {

/// Draws a level over a background: round((level * alpha + background * (255 - alpha)) / 255).
/// REQUIRES: no argument is above 255
inline std::uint8_t blend(std::uint32_t level, std::uint32_t alpha, std::uint32_t background) {
  return static_cast<std::uint8_t>((level * alpha + background * (255 - alpha) + 127) / 255);
}

/// Draws one RGBA pixel over a background.
inline void blend_pixel(const std::uint8_t* rgba, const Rgb& background, std::uint8_t* rgb) {
  for (std::size_t c = 0; c < 3; ++c) rgb[c] = blend(rgba[c], rgba[3], background[c]);
}

}  // namespace slipstream
