#include "ops/warp_pixels.h"

#include <array>
#include <cstring>

#include "ops/best_code.h"
#include "ops/geometry.h"

namespace slipstream {
namespace {

constexpr std::int32_t kOutside = -1;

/// Which pixel each one of row `y` comes from, counted through the image, or kOutside.
void nearest_in_row(const DrawnWarp& warp, std::int32_t y, std::int32_t height, std::int32_t width,
                    std::int32_t* __restrict from) {
  with_best_code([=] {
    for (std::int32_t x = 0; x < width; ++x) {
      const Coordinate at = source_of(warp, x, y);
      const std::int32_t column = nearest_pixel(at.x);
      const std::int32_t row = nearest_pixel(at.y);
      const bool is_inside = column >= 0 && column < width && row >= 0 && row < height;
      from[x] = is_inside ? row * width + column : kOutside;
    }
  });
}

// N: bytes of a pixel known to the compiler, or 0.
template <std::size_t N>
void gather(const std::int32_t* from, std::int64_t count, const std::byte* in, std::byte* out,
            const std::byte* fill, std::size_t bytes) {
  if constexpr (N > 0) bytes = N;
  for (std::int64_t i = 0; i < count; ++i, out += bytes) {
    const bool is_outside = from[i] == kOutside;
    std::memcpy(out, is_outside ? fill : in + static_cast<std::size_t>(from[i]) * bytes, bytes);
  }
}

auto gather_for(std::size_t bytes) {
  switch (bytes) {
    case 1:
      return gather<1>;
    case 3:
      return gather<3>;
    case 4:
      return gather<4>;
    case 12:
      return gather<12>;
    default:
      return gather<0>;
  }
}

void warp_nearest(const DrawnWarp& warp, const std::byte* fill, const ConstArray& in,
                  const MutableArray& out, Scratch& scratch) {
  const auto height = static_cast<std::int32_t>(in.shape[0]);
  const auto width = static_cast<std::int32_t>(in.shape[1]);
  const std::size_t bytes = pixel_bytes(in);
  const auto gather_row = gather_for(bytes);
  auto* from = scratch.reset(DType::i32, {width}).as<std::int32_t>();
  for (std::int32_t y = 0; y < height; ++y) {
    nearest_in_row(warp, y, height, width, from);
    std::byte* row =
        out.data + static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * bytes;
    gather_row(from, width, in.data, row, fill, bytes);
  }
}

template <typename T>
T stored(float value) {
  if constexpr (sizeof(T) == 1) {
    return static_cast<T>(to_level(value));
  } else {
    return value;
  }
}

/// The upper left one of the four pixels that one is made of, and how far from there it lies.
struct Corner {
  std::int32_t left;
  std::int32_t top;
  float across;
  float down;
};

Corner corner_of(const DrawnWarp& warp, std::int32_t x, std::int32_t y) {
  const Coordinate at = source_of(warp, x, y);
  const std::int32_t left = whole_below(at.x);
  const std::int32_t top = whole_below(at.y);
  return {left, top, at.x - static_cast<float>(left), at.y - static_cast<float>(top)};
}

/// Those of a row of pixels, counted as in nearest_in_row(); kOutside where not all four pixels lie
/// in the image.
struct Corners {
  std::int32_t* from;
  float* across;
  float* down;
};

void corners_in_row(const DrawnWarp& warp, std::int32_t y, std::int32_t height, std::int32_t width,
                    const Corners& corners) {
  with_best_code([=, from = corners.from, across = corners.across, down = corners.down] {
    for (std::int32_t x = 0; x < width; ++x) {
      const Corner at = corner_of(warp, x, y);
      across[x] = at.across;
      down[x] = at.down;
      const bool is_inside =
          at.left >= 0 && at.left < width - 1 && at.top >= 0 && at.top < height - 1;
      from[x] = is_inside ? at.top * width + at.left : kOutside;
    }
  });
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

  void make_row(std::int32_t y, const Corners& corners, T* to) const {
    corners_in_row(warp_, y, height_, width_, corners);
    with_best_code([=, of = *this] {
      for (std::int32_t x = 0; x < of.width_; ++x) {
        if (corners.from[x] == kOutside) {
          of.make_at_edge(y, x, to + x * C);
        } else {
          of.make(corners.from[x], corners.across[x], corners.down[x], to + x * C);
        }
      }
    });
  }

 private:
  void make(std::int32_t from, float across, float down, T* to) const {
    const T* upper = pixels_ + static_cast<std::int64_t>(from) * C;
    const T* lower = upper + static_cast<std::int64_t>(width_) * C;
    for (int c = 0; c < C; ++c) {
      const float above = between(upper[c], upper[C + c], across);
      const float below = between(lower[c], lower[C + c], across);
      to[c] = stored<T>(between(above, below, down));
    }
  }

  void make_at_edge(std::int32_t y, std::int32_t x, T* to) const {
    const auto [left, top, across, down] = corner_of(warp_, x, y);
    for (int c = 0; c < C; ++c) {
      const float above = between(value(left, top, c), value(left + 1, top, c), across);
      const float below = between(value(left, top + 1, c), value(left + 1, top + 1, c), across);
      to[c] = stored<T>(between(above, below, down));
    }
  }

  float value(std::int32_t x, std::int32_t y, int c) const {
    const bool is_inside = x >= 0 && x < width_ && y >= 0 && y < height_;
    if (!is_inside) return fill_;
    return static_cast<float>(pixels_[(static_cast<std::int64_t>(y) * width_ + x) * C + c]);
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
  const std::int64_t width = in.shape[1];
  auto* across = scratch.reset(DType::f32, {3, width}).as<float>();
  const Corners corners = {reinterpret_cast<std::int32_t*>(across + 2 * width), across,
                           across + width};
  const BilinearWarp<T, C> rows(warp, fill, in);
  for (std::int64_t y = 0; y < in.shape[0]; ++y)
    rows.make_row(static_cast<std::int32_t>(y), corners, out.as<T>() + y * width * C);
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
  const bool is_levels = in.dtype == DType::u8;
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
