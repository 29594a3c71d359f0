#include "tools/tiles.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "slipstream/core/error.h"
#include "slipstream/ops/resize.h"
#include "tools/drawn_text.h"

namespace slipstream {
namespace {

constexpr std::int64_t kLineHeight = kTextHeight + 3;
constexpr Rgb kMarked = {255, 0, 0};

void place(const ConstArray& tile, std::int64_t top, std::int64_t left, const MutableArray& sheet) {
  const std::int64_t row_bytes = tile.shape[1] * 3;
  for (std::int64_t y = 0; y < tile.shape[0]; ++y)
    std::copy_n(tile.data + y * row_bytes, row_bytes,
                sheet.data + ((top + y) * sheet.shape[1] + left) * 3);
}

void fill(const Rgb& color, const MutableArray& sheet) {
  for (std::size_t i = 0; i < sheet.bytes(); ++i) sheet.data[i] = std::byte{color[i % 3]};
}

/// Black or white, whichever is seen better.
Rgb ink_on(const Rgb& background) {
  constexpr int kRed = 299, kGreen = 587, kBlue = 114, kMiddle = 128 * 1000;
  const int level = kRed * background[0] + kGreen * background[1] + kBlue * background[2];
  return level < kMiddle ? Rgb{255, 255, 255} : Rgb{0, 0, 0};
}

void color_red(const MutableArray& tile, std::int64_t y, std::int64_t x) {
  std::byte* const pixel = tile.data + (y * tile.shape[1] + x) * 3;
  for (std::size_t c = 0; c < kMarked.size(); ++c) pixel[c] = std::byte{kMarked[c]};
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
  if (boxes.dtype != DType::float32) return;
  const MutableArray to = tile.span();
  for (std::size_t at = 0; at + 4 <= boxes.shape.elements(); at += 4) {
    const float* const box = boxes.as<float>() + at;
    if (!(box[2] > box[0] && box[3] > box[1])) continue;
    const auto [left, right] = covered(box[0], box[2], width, to.shape[1]);
    const auto [top, bottom] = covered(box[1], box[3], height, to.shape[0]);
    for (std::int64_t x = left; x <= right; ++x) {
      color_red(to, top, x);
      color_red(to, bottom, x);
    }
    for (std::int64_t y = top; y <= bottom; ++y) {
      color_red(to, y, left);
      color_red(to, y, right);
    }
  }
}

HostArray tile_of(const ConstArray& image, std::int64_t side) {
  if (image.shape.elements() == 0)
    throw Error("an image of " + to_string(image.shape) + " has no pixels");
  const std::int64_t longest = std::max(image.shape[0], image.shape[1]);
  const Resize resize{{std::max<std::int64_t>(1, image.shape[0] * side / longest),
                       std::max<std::int64_t>(1, image.shape[1] * side / longest)}};
  HostArray tile;
  Scratch scratch;
  resize.apply({}, FieldKind::image, image,
               tile.reset(DType::uint8, {resize.size.height, resize.size.width, 3}), scratch);
  return tile;
}

std::vector<std::byte> png_of_tiles(const std::vector<Tile>& tiles, const SheetForm& form) {
  std::size_t lines = 0;
  for (const Tile& tile : tiles) lines = std::max(lines, tile.captions.size());
  const auto columns = static_cast<std::int64_t>(form.columns);
  const auto rows = (static_cast<std::int64_t>(tiles.size()) + columns - 1) / columns;
  const std::int64_t row_height = form.cell + static_cast<std::int64_t>(lines) * kLineHeight;
  HostArray sheet;
  const MutableArray to = sheet.reset(DType::uint8, {rows * row_height, columns * form.cell, 3});
  fill(form.background, to);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const ConstArray tile = tiles[i].pixels.view();
    const std::int64_t top = static_cast<std::int64_t>(i) / columns * row_height;
    const std::int64_t left = static_cast<std::int64_t>(i) % columns * form.cell;
    place(tile, top + (form.cell - tile.shape[0]) / 2, left + (form.cell - tile.shape[1]) / 2, to);
    const Rgb ink = tiles[i].is_marked ? kMarked : ink_on(form.background);
    for (std::size_t line = 0; line < tiles[i].captions.size(); ++line) {
      const std::int64_t below = top + form.cell + static_cast<std::int64_t>(line) * kLineHeight;
      draw_text(tiles[i].captions[line], {below, left, form.cell}, ink, to);
    }
  }
  return encode_png(sheet.view());
}

}  // namespace slipstream
