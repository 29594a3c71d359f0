#include "data/tiles.h"

#include <algorithm>

#include "slipstream/error.h"
#include "slipstream/image.h"
#include "slipstream/resize.h"

namespace slipstream {
namespace {

void place(const ConstArray& tile, std::int64_t top, std::int64_t left, const MutableArray& sheet) {
  const std::int64_t row_bytes = tile.shape[1] * 3;
  for (std::int64_t y = 0; y < tile.shape[0]; ++y)
    std::copy_n(tile.data + y * row_bytes, row_bytes,
                sheet.data + ((top + y) * sheet.shape[1] + left) * 3);
}

}  // namespace

HostArray tile_of(const ConstArray& image, std::int64_t side) {
  if (image.shape.elements() == 0)
    throw Error("an image of " + to_string(image.shape) + " has no pixels");
  const std::int64_t longest = std::max(image.shape[0], image.shape[1]);
  const Resize resize{std::max<std::int64_t>(1, image.shape[0] * side / longest),
                      std::max<std::int64_t>(1, image.shape[1] * side / longest)};
  HostArray tile;
  Scratch scratch;
  resize.apply({}, FieldKind::image, image, tile.reset(DType::u8, {resize.height, resize.width, 3}),
               scratch);
  return tile;
}

std::vector<std::byte> png_of_tiles(const std::vector<HostArray>& tiles, std::size_t columns,
                                    std::int64_t cell, std::byte background) {
  const std::size_t rows = (tiles.size() + columns - 1) / columns;
  HostArray sheet;
  const MutableArray to = sheet.reset(DType::u8, {static_cast<std::int64_t>(rows) * cell,
                                                  static_cast<std::int64_t>(columns) * cell, 3});
  std::fill_n(to.data, to.bytes(), background);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const ConstArray tile = tiles[i].view();
    const auto row = static_cast<std::int64_t>(i / columns);
    const auto column = static_cast<std::int64_t>(i % columns);
    place(tile, row * cell + (cell - tile.shape[0]) / 2, column * cell + (cell - tile.shape[1]) / 2,
          to);
  }
  return encode_png(sheet.view());
}

}  // namespace slipstream
