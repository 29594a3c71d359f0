#pragma once

#include <cstdint>
#include <string>

#include "slipstream/codecs/image.h"

namespace slipstream {

/// Pixels of a line of text.
inline constexpr std::int64_t kTextHeight = 8;

/// Where a line of text stands: in the middle of `width` pixels from `left` on.
struct TextPlace {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t width = 0;
};

/// Draws `text` (UTF-8) into `image` (uint8, height x width x 3). What does not fit into the width
/// is cut off, which two dots say; characters other than ASCII are escaped, such as \u4e2d.
/// REQUIRES: the place lies in the image
void draw_text(const std::string& text, const TextPlace& place, const Rgb& ink,
               const MutableArray& image);

}  // namespace slipstream
