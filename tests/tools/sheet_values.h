#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "slipstream/datasets/datasets.h"
#include "tools/sheet.h"

namespace slipstream {

using Bytes = std::vector<std::byte>;

inline Bytes pixels_in(const ConstArray& image) { return {image.data, image.data + image.bytes()}; }
inline Bytes pixels_in(const Tile& tile) { return pixels_in(tile.pixels.view()); }

/// `count` gray images of `height` x 8; image i has the level 10 * i.
inline ArrayField gray_images(std::int64_t count, std::int64_t height = 8) {
  HostArray images;
  const MutableArray pixels = images.reset(DType::uint8, {count, height, 8, 3});
  const std::size_t bytes = pixels.bytes() / static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < pixels.bytes(); ++i) pixels.data[i] = std::byte(i / bytes * 10);
  return {"image", FieldKind::image, std::move(images), 0};
}

/// Returns the numbers of the gray images on a sheet.
inline std::vector<int> numbers_on(const Sheet& sheet) {
  std::vector<int> numbers;
  for (const Tile& tile : sheet.tiles)
    numbers.push_back(std::to_integer<int>(pixels_in(tile).front()) / 10);
  return numbers;
}

}  // namespace slipstream
