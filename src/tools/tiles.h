#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "slipstream/codecs/image.h"

namespace slipstream {

inline constexpr std::int64_t kTileBorder = 4;  ///< pixels of a cell around its tile

/// `image` (uint8, height x width x 3) scaled to the largest size of its proportions in a square of
/// `side` pixels. Throws Error for an image without pixels.
HostArray tile_of(const ConstArray& image, std::int64_t side);

/// Draws the outlines of boxes of an image of `height` x `width` pixels into its tile, in red, one
/// pixel thick; none where they are not float32.
void outline_boxes(const ConstArray& boxes, std::int64_t height, std::int64_t width,
                   HostArray& tile);

struct Tile {
  HostArray pixels;
  std::vector<std::string> captions = {};  ///< lines of text under it
  bool is_marked = false;                  ///< whether these are red
};

struct SheetForm {
  std::size_t columns = 1;
  std::int64_t cell = 1;  ///< height and width of the square around each tile, pixels
  Rgb background = {255, 255, 255};
};

/// A PNG of `tiles`, left to right in rows, each in the middle of its cell; under each cell is
/// room for as many captions as any tile has. REQUIRES: at least one tile, none larger than a cell
std::vector<std::byte> png_of_tiles(const std::vector<Tile>& tiles, const SheetForm& form);

}  // namespace slipstream
