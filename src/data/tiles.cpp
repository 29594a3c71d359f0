#include "data/tiles.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

void colour_red(const MutableArray& tile, std::int64_t y, std::int64_t x) {
  std::byte* const pixel = tile.data + (y * tile.shape[1] + x) * 3;
  pixel[0] = std::byte{255};
  pixel[1] = pixel[2] = std::byte{0};
}

/// The first and last pixels of a tile's side of `to` that `low` to `high` of `from` cover.
std::pair<std::int64_t, std::int64_t> covered(float low, float high, std::int64_t from,
                                              std::int64_t to) {
  const double scale = static_cast<double>(to) / static_cast<double>(from);
  const auto most = static_cast<double>(to - 1);
  const double first = std::clamp(std::floor(low * scale), 0.0, most);
  const double last = std::clamp(std::ceil(high * scale) - 1, first, most);
  return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(last)};
}

}  // namespace

void outline_boxes(const ConstArray& boxes, std::int64_t height, std::int64_t width,
                   HostArray& tile) {
  if (boxes.dtype != DType::f32) return;
  const MutableArray to = tile.span();
  for (std::size_t at = 0; at + 4 <= boxes.shape.elements(); at += 4) {
    const float* const box = boxes.as<float>() + at;
    if (!(box[2] > box[0] && box[3] > box[1])) continue;
    const auto [left, right] = covered(box[0], box[2], width, to.shape[1]);
    const auto [top, bottom] = covered(box[1], box[3], height, to.shape[0]);
    for (std::int64_t x = left; x <= right; ++x) {
      colour_red(to, top, x);
      colour_red(to, bottom, x);
    }
    for (std::int64_t y = top; y <= bottom; ++y) {
      colour_red(to, y, left);
      colour_red(to, y, right);
    }
  }
}

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
