#include <cstring>
#include <utility>

#include "slipstream/transforms/transforms.h"
#include "transforms/best_code.h"
#include "transforms/geometry.h"

namespace slipstream {
namespace {

// A vector of 16 bytes, which holds as many whole pixels as fit.
using Block = unsigned char __attribute__((vector_size(16)));

/// Reverses the order of the pixels (N bytes each) at the end of a block.
template <int N, int... kPlace>
Block reversed(Block block, std::integer_sequence<int, kPlace...>) {
  constexpr int kBlock = sizeof(Block), kPixels = kBlock / N, kFirst = kBlock - kPixels * N;
  constexpr auto kSource = [](int place) {
    const int pixel = place / N;
    return pixel < kPixels ? kFirst + (kPixels - 1 - pixel) * N + place % N : place;
  };
  return __builtin_shufflevector(block, block, kSource(kPlace)...);
}

void mirror_pixels(const std::byte* in, std::byte* out, std::size_t pixels, std::size_t bytes) {
  const std::byte* from = in + pixels * bytes;
  for (std::size_t x = 0; x < pixels; ++x, out += bytes) {
    from -= bytes;
    std::memcpy(out, from, bytes);
  }
}

/// Reverses a row in blocks. N is the number of bytes of a pixel.
template <int N>
void mirror_blocks(const std::byte* in, std::byte* out, std::size_t pixels) {
  constexpr std::size_t kAtOnce = sizeof(Block) / N;
  for (; pixels * N >= sizeof(Block); pixels -= kAtOnce, out += kAtOnce * N) {
    Block block;
    std::memcpy(&block, in + pixels * N - sizeof(Block), sizeof(Block));
    block = reversed<N>(block, std::make_integer_sequence<int, sizeof(Block)>());
    // This also writes bytes after the block's pixels, which the next block overwrites.
    std::memcpy(out, &block, sizeof(Block));
  }
  // The rest is smaller than a block, and a block would read before the row.
  mirror_pixels(in, out, pixels, N);
}

/// Reverses every row. N is the number of bytes of a pixel if the compiler knows it, else 0.
template <int N>
void mirror(const std::byte* in, std::byte* out, std::size_t rows, std::size_t pixels,
            std::size_t bytes) {
  with_best_code([=] {
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t at = row * pixels * bytes;
      if constexpr (N > 0) {
        mirror_blocks<N>(in + at, out + at, pixels);
      } else {
        mirror_pixels(in + at, out + at, pixels, bytes);
      }
    }
  });
}

}  // namespace

void RandomHorizontalFlip::validate() const { require_probability(kName, p); }

FieldSpec RandomHorizontalFlip::output(const FieldSpec& in) const {
  return resided(kName, in, in.shape[0], in.shape[1]);
}

RandomHorizontalFlip::Drawn RandomHorizontalFlip::draw(const RandomKey& key, const Shape&) const {
  return {is_applied(key, p)};
}

void RandomHorizontalFlip::apply(Drawn drawn, FieldKind, ConstArray in, MutableArray out,
                                 Scratch&) const {
  if (!drawn.flips) return copy_all(in, out);
  const std::size_t bytes = pixel_bytes(in);
  const auto width = static_cast<std::size_t>(in.shape[1]);
  const auto height = static_cast<std::size_t>(in.shape[0]);
  const auto mirror_all =
      for_pixel_bytes(bytes, []<std::size_t N> { return mirror<static_cast<int>(N)>; });
  mirror_all(in.data, out.data, height, width, bytes);
}

AffineMap RandomHorizontalFlip::map(Drawn drawn, const Shape& shape) const {
  AffineMap map{.height = shape[0], .width = shape[1]};
  if (!drawn.flips) return map;
  map.xx = -1;
  map.dx = static_cast<double>(shape[1]);
  return map;
}

void RandomVerticalFlip::validate() const { require_probability(kName, p); }

FieldSpec RandomVerticalFlip::output(const FieldSpec& in) const {
  return resided(kName, in, in.shape[0], in.shape[1]);
}

RandomVerticalFlip::Drawn RandomVerticalFlip::draw(const RandomKey& key, const Shape&) const {
  return {is_applied(key, p)};
}

void RandomVerticalFlip::apply(Drawn drawn, FieldKind, ConstArray in, MutableArray out,
                               Scratch&) const {
  if (!drawn.flips) return copy_all(in, out);
  const std::size_t row_bytes = pixel_bytes(in) * static_cast<std::size_t>(in.shape[1]);
  if (row_bytes == 0) return;
  for (std::int64_t y = 0; y < in.shape[0]; ++y) {
    const auto from = static_cast<std::size_t>(in.shape[0] - 1 - y);
    std::memcpy(out.data + static_cast<std::size_t>(y) * row_bytes, in.data + from * row_bytes,
                row_bytes);
  }
}

AffineMap RandomVerticalFlip::map(Drawn drawn, const Shape& shape) const {
  AffineMap map{.height = shape[0], .width = shape[1]};
  if (!drawn.flips) return map;
  map.yy = -1;
  map.dy = static_cast<double>(shape[0]);
  return map;
}

}  // namespace slipstream
