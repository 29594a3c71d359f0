#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slipstream/array.h"

namespace slipstream {

/// `image` (u8, height x width x 3) scaled to the largest size of its proportions in a square of
/// `side` pixels. Throws Error for an image without pixels.
HostArray tile_of(const ConstArray& image, std::int64_t side);

/// Draws the outlines of boxes of an image of `height` x `width` pixels into its tile, in red, one
/// pixel thick; none where they are not f32.
void outline_boxes(const ConstArray& boxes, std::int64_t height, std::int64_t width,
                   HostArray& tile);

/// A PNG of `tiles`, left to right in rows of `columns`, each in the middle of a square of `cell`
/// pixels of level `background`. REQUIRES: at least one tile, none larger than a cell
std::vector<std::byte> png_of_tiles(const std::vector<HostArray>& tiles, std::size_t columns,
                                    std::int64_t cell, std::byte background);

}  // namespace slipstream
