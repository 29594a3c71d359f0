#include "transforms/warp_pixels.h"

#include <array>
#include <cstring>

#include "transforms/best_code.h"
#include "transforms/geometry.h"
#include "transforms/interpolation.h"
#include "transforms/pixel_field.h"

namespace slipstream {
namespace {

constexpr std::int32_t kOutside = -1;

/// Computes for each pixel of row `y` the index of its source pixel in the image, or kOutside. A
/// separate pass, because this arithmetic is vectorized while copying pixels is not.
void nearest_in_row(const DrawnWarp& warp, std::int32_t y, std::int32_t height, std::int32_t width,
                    std::int32_t* __restrict from) {
  with_best_code([=] {
    for (std::int32_t x = 0; x < width; ++x) {
      const Coordinate at = source_coordinate(warp, x, y);
      const std::int32_t column = nearest_pixel(at.x);
      const std::int32_t row = nearest_pixel(at.y);
      const bool is_inside = column >= 0 && column < width && row >= 0 && row < height;
      from[x] = is_inside ? row * width + column : kOutside;
    }
  });
}

// Copies the source pixels. N is the number of bytes of a pixel if the compiler knows it, else 0.
template <std::size_t N>
void gather(const std::int32_t* from, std::int64_t count, const std::byte* in, std::byte* out,
            const std::byte* fill, std::size_t bytes) {
  if constexpr (N > 0) bytes = N;
  for (std::int64_t i = 0; i < count; ++i, out += bytes) {
    const bool is_outside = from[i] == kOutside;
    std::memcpy(out, is_outside ? fill : in + static_cast<std::size_t>(from[i]) * bytes, bytes);
  }
}

void warp_nearest(const DrawnWarp& warp, const std::byte* fill, const ConstArray& in,
                  const MutableArray& out, Scratch& scratch) {
  const auto height = static_cast<std::int32_t>(in.shape[0]);
  const auto width = static_cast<std::int32_t>(in.shape[1]);
  const std::size_t bytes = pixel_bytes(in);
  const auto gather_row = for_pixel_bytes(bytes, []<std::size_t N> { return gather<N>; });
  auto* from = scratch.reset(DType::int32, {width}).as<std::int32_t>();
  for (std::int32_t y = 0; y < height; ++y) {
    nearest_in_row(warp, y, height, width, from);
    std::byte* row =
        out.data + static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * bytes;
    gather_row(from, width, in.data, row, fill, bytes);
  }
}

template <typename T, int C>
class BilinearWarp {
 public:
  BilinearWarp(const DrawnWarp& warp, float fill, const ConstArray& in)
      : warp_(warp),
        fill_(fill),
        height_(static_cast<std::int32_t>(in.shape[0])),
        width_(static_cast<std::int32_t>(in.shape[1])),
        pixels_(in.as<T>()) {}

  void make_row(std::int32_t y, float* to) const {
    with_best_code([=, this] {
      // A copy, because the compiler must assume that `to` may alias *this.
      const BilinearWarp row = *this;
      for (std::int32_t x = 0; x < row.width_; ++x)
        row.make_pixel(y, x, to + std::ptrdiff_t{x} * C);
    });
  }

 private:
  void make_pixel(std::int32_t y, std::int32_t x, float* to) const {
    const Coordinate at = source_coordinate(warp_, x, y);
    const std::int32_t left = whole_below(at.x);
    const std::int32_t top = whole_below(at.y);
    const float across = at.x - static_cast<float>(left);
    const float down = at.y - static_cast<float>(top);
    if (left >= 0 && left < width_ - 1 && top >= 0 && top < height_ - 1) {
      const T* corner = pixel(left, top);
      const std::int64_t row = std::int64_t{width_} * C;
      return mix(across, down, to, [&](int right, int below, int c) {
        return static_cast<float>(corner[below * row + std::ptrdiff_t{right} * C + c]);
      });
    }
    mix(across, down, to, [&](int right, int below, int c) {
      const bool is_inside = is_within(left + right, width_) && is_within(top + below, height_);
      return is_inside ? static_cast<float>(pixel(left + right, top + below)[c]) : fill_;
    });
  }

  static bool is_within(std::int32_t at, std::int32_t size) { return at >= 0 && at < size; }

  const T* pixel(std::int32_t x, std::int32_t y) const {
    return pixels_ + (std::int64_t{y} * width_ + x) * C;
  }

  /// Interpolates between four pixels. value(right, below, c) returns channel c of one of them;
  /// right and below are 0 or 1.
  template <typename Value>
  static void mix(float across, float down, float* to, const Value& value) {
    // All channels are computed before the first is stored, because `to` might alias the pixels as
    // far as the compiler knows.
    float made[C];
    for (int c = 0; c < C; ++c) {
      const float above = between(value(0, 0, c), value(1, 0, c), across);
      const float below = between(value(0, 1, c), value(1, 1, c), across);
      made[c] = between(above, below, down);
    }
    for (int c = 0; c < C; ++c) to[c] = made[c];
  }

  DrawnWarp warp_;
  float fill_;
  std::int32_t height_;
  std::int32_t width_;
  const T* pixels_;
};

template <typename T, int C>
void warp_bilinear(const DrawnWarp& warp, float fill, const ConstArray& in, const MutableArray& out,
                   Scratch& scratch) {
  const std::int64_t count = in.shape[1] * C;
  auto* const spare = scratch.reset(DType::float32, {count}).as<float>();
  const BilinearWarp<T, C> pixels(warp, fill, in);
  for (std::int64_t y = 0; y < in.shape[0]; ++y) {
    store_made(out.as<T>() + y * count, count, spare,
               [&](float* to) { pixels.make_row(static_cast<std::int32_t>(y), to); });
  }
}

template <typename T>
auto warp_bilinear_for(std::int64_t channels) {
  constexpr std::array kOfChannels = {warp_bilinear<T, 1>, warp_bilinear<T, 2>, warp_bilinear<T, 3>,
                                      warp_bilinear<T, 4>};
  return kOfChannels.at(static_cast<std::size_t>(channels - 1));
}

}  // namespace

void warp_pixels(const DrawnWarp& warp, FieldKind kind, Interpolation interpolation, float fill,
                 const ConstArray& in, const MutableArray& out, Scratch& scratch) {
  const bool is_image = kind == FieldKind::image;
  const bool is_levels = in.dtype == DType::uint8;
  if (is_image && interpolation == Interpolation::bilinear) {
    const auto warp_bilinear = is_levels ? warp_bilinear_for<std::uint8_t>(in.shape[2])
                                         : warp_bilinear_for<float>(in.shape[2]);
    return warp_bilinear(warp, fill, in, out, scratch);
  }
  std::byte outside[4 * sizeof(float)] = {};
  for (std::size_t c = 0; is_image && c < 4; ++c) {
    if (is_levels) outside[c] = static_cast<std::byte>(fill);
    if (!is_levels) std::memcpy(outside + c * sizeof(float), &fill, sizeof(float));
  }
  warp_nearest(warp, outside, in, out, scratch);
}

}  // namespace slipstream
