#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "slipstream/codecs/image.h"

namespace slipstream {

inline constexpr std::int64_t kTileBorder = 4;  ///< pixels between a tile and the edge of its cell

struct Tile {
  HostArray pixels;                        ///< uint8, height x width x 3, no larger than a cell
  std::vector<std::string> captions = {};  ///< lines of text, UTF-8
  bool is_marked = false;                  ///< highlighted in red
};

/// Images in a grid, row by row, each in the center of its cell.
struct Sheet {
  std::vector<Tile> tiles = {};
  std::size_t columns = 1;
  std::int64_t cell = 1;  ///< height and width of the square around each tile, pixels
  Rgb background = {255, 255, 255};
};

/// Scales `image` (uint8, height x width x 3) to the largest size with its aspect ratio that fits
/// into a square of `side` pixels. Throws Error for an image without pixels.
HostArray make_tile(const ConstArray& image, std::int64_t side);

/// Like make_tile(), for a mask (uint8, height x width): each pixel gets its class_color().
HostArray make_mask_tile(const ConstArray& mask, std::int64_t side);

/// Returns the color of class `number` on a sheet, from the palette of PASCAL VOC, whose 256 colors
/// are distinct. 0 is black.
Rgb class_color(std::uint8_t number);

/// Draws the outlines of the boxes of an image of `height` x `width` pixels into its tile, in red,
/// one pixel thick. Does nothing unless they are float32.
void outline_boxes(const ConstArray& boxes, std::int64_t height, std::int64_t width,
                   HostArray& tile);

/// Returns a PNG of the images without captions; marked tiles have a red frame.
/// REQUIRES: at least one tile
std::vector<std::byte> sheet_png(const Sheet& sheet);

}  // namespace slipstream
