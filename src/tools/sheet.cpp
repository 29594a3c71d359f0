#include "tools/sheet.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "slipstream/core/error.h"
#include "slipstream/transforms/resize.h"

namespace slipstream {
namespace {

constexpr Rgb kMarked = {255, 0, 0};
constexpr std::int64_t kFrame = 3;  ///< pixels of a marked cell's frame

void copy_tile(const ConstArray& tile, std::int64_t top, std::int64_t left,
               const MutableArray& sheet) {
  const std::int64_t row_bytes = tile.shape[1] * 3;
  for (std::int64_t y = 0; y < tile.shape[0]; ++y)
    std::copy_n(tile.data + y * row_bytes, row_bytes,
                sheet.data + ((top + y) * sheet.shape[1] + left) * 3);
}

void color_pixel(const MutableArray& image, std::int64_t y, std::int64_t x, const Rgb& color) {
  std::byte* const pixel = image.data + (y * image.shape[1] + x) * 3;
  for (std::size_t c = 0; c < color.size(); ++c) pixel[c] = std::byte{color[c]};
}

void color_square(const MutableArray& image, std::int64_t top, std::int64_t left, std::int64_t side,
                  const Rgb& color) {
  for (std::int64_t y = top; y < top + side; ++y)
    for (std::int64_t x = left; x < left + side; ++x) color_pixel(image, y, x, color);
}

/// Returns the first and last pixel, on a tile's side of `to` pixels, that the range `low` to
/// `high` of `from` pixels covers.
std::pair<std::int64_t, std::int64_t> covered(float low, float high, std::int64_t from,
                                              std::int64_t to) {
  const double scale = static_cast<double>(to) / static_cast<double>(from);
  const auto most = static_cast<double>(to - 1);
  const double first = std::clamp(std::floor(low * scale), 0.0, most);
  const double last = std::clamp(std::ceil(high * scale) - 1, first, most);
  return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(last)};
}

HostArray scaled(const ConstArray& image, FieldKind kind, std::int64_t side) {
  const std::int64_t longest = std::max(image.shape[0], image.shape[1]);
  const Resize resize{{std::max<std::int64_t>(1, image.shape[0] * side / longest),
                       std::max<std::int64_t>(1, image.shape[1] * side / longest)}};
  Shape shape = image.shape;
  shape.dims[0] = resize.size.height;
  shape.dims[1] = resize.size.width;
  HostArray tile;
  Scratch scratch;
  resize.apply({}, kind, image, tile.reset(DType::uint8, shape), scratch);
  return tile;
}

}  // namespace

HostArray make_tile(const ConstArray& image, std::int64_t side) {
  if (image.shape.elements() == 0)
    throw Error("an image of " + to_string(image.shape) + " has no pixels");
  return scaled(image, FieldKind::image, side);
}

HostArray make_mask_tile(const ConstArray& mask, std::int64_t side) {
  const HostArray classes = scaled(mask, FieldKind::mask, side);
  const Shape shape = classes.view().shape;
  HostArray tile;
  const MutableArray out = tile.reset(DType::uint8, {shape[0], shape[1], 3});
  for (std::size_t i = 0; i < out.bytes(); ++i)
    out.data[i] = std::byte{class_color(classes.view().as<std::uint8_t>()[i / 3])[i % 3]};
  return tile;
}

Rgb class_color(std::uint8_t number) {
  constexpr unsigned kBits = 8;
  Rgb color = {0, 0, 0};
  for (unsigned bit = 0; bit < kBits; ++bit) {
    const unsigned channel = bit % 3, level = kBits - 1 - bit / 3;
    color[channel] = static_cast<std::uint8_t>(color[channel] | (number >> bit & 1U) << level);
  }
  return color;
}

void outline_boxes(const ConstArray& boxes, std::int64_t height, std::int64_t width,
                   HostArray& tile) {
  if (boxes.dtype != DType::float32) return;
  const MutableArray to = tile.span();
  for (std::size_t at = 0; at + 4 <= boxes.shape.elements(); at += 4) {
    const float* const box = boxes.as<float>() + at;
    if (!(box[2] > box[0] && box[3] > box[1])) continue;
    const auto [left, right] = covered(box[0], box[2], width, to.shape[1]);
    const auto [top, bottom] = covered(box[1], box[3], height, to.shape[0]);
    for (std::int64_t x = left; x <= right; ++x)
      for (const std::int64_t y : {top, bottom}) color_pixel(to, y, x, kMarked);
    for (std::int64_t y = top; y <= bottom; ++y)
      for (const std::int64_t x : {left, right}) color_pixel(to, y, x, kMarked);
  }
}

std::vector<std::byte> sheet_png(const Sheet& sheet) {
  const auto columns = static_cast<std::int64_t>(sheet.columns);
  const auto rows = (static_cast<std::int64_t>(sheet.tiles.size()) + columns - 1) / columns;
  const std::int64_t cell = sheet.cell;
  HostArray pixels;
  const MutableArray to = pixels.reset(DType::uint8, {rows * cell, columns * cell, 3});
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const std::int64_t top = i / columns * cell, left = i % columns * cell;
    color_square(to, top, left, cell, sheet.background);
    if (static_cast<std::size_t>(i) >= sheet.tiles.size()) continue;
    const Tile& each = sheet.tiles[static_cast<std::size_t>(i)];
    if (each.is_marked) {
      color_square(to, top, left, cell, kMarked);
      color_square(to, top + kFrame, left + kFrame, cell - 2 * kFrame, sheet.background);
    }
    const ConstArray tile = each.pixels.view();
    copy_tile(tile, top + (cell - tile.shape[0]) / 2, left + (cell - tile.shape[1]) / 2, to);
  }
  return encode_png(pixels.view());
}

}  // namespace slipstream
