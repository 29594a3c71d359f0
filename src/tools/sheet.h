#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "slipstream/codecs/image.h"

namespace slipstream {

inline constexpr std::int64_t kTileBorder = 4;  ///< pixels of a cell around its tile

struct Tile {
  HostArray pixels;                        ///< uint8, height x width x 3, no larger than a cell
  std::vector<std::string> captions = {};  ///< lines of text about it, UTF-8
  bool is_marked = false;                  ///< set off from the others in red
};

/// Images in a grid, from left to right in rows, each in the middle of its cell.
struct Sheet {
  std::vector<Tile> tiles = {};
  std::size_t columns = 1;
  std::int64_t cell = 1;  ///< height and width of the square around each tile, pixels
  Rgb background = {255, 255, 255};
};

/// `image` (uint8, height x width x 3) scaled to the largest size of its proportions in a square of
/// `side` pixels. Throws Error for an image without pixels.
HostArray make_tile(const ConstArray& image, std::int64_t side);

/// The same for `mask` (uint8, height x width): each pixel in class_color().
HostArray make_mask_tile(const ConstArray& mask, std::int64_t side);

/// The color in which a sheet shows the class `number`, from the palette of PASCAL VOC, whose
/// 256 colors differ from each other. 0 is black.
Rgb class_color(std::uint8_t number);

/// Draws the outlines of boxes of an image of `height` x `width` pixels into its tile, in red, one
/// pixel thick; none where they are not float32.
void outline_boxes(const ConstArray& boxes, std::int64_t height, std::int64_t width,
                   HostArray& tile);

/// A PNG of the images alone, without captions; marked tiles have a red frame. REQUIRES: at least
/// one tile
std::vector<std::byte> sheet_png(const Sheet& sheet);

}  // namespace slipstream
