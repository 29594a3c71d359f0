#include "ops/warp_pixels.h"

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

template <typename T>
void warp_bilinear(const DrawnWarp& warp, float fill, const ConstArray& in,
                   const MutableArray& out) {
  const auto height = static_cast<std::int32_t>(in.shape[0]);
  const auto width = static_cast<std::int32_t>(in.shape[1]);
  const auto channels = static_cast<std::int32_t>(in.shape[2]);
  const T* const pixels = in.as<T>();
  T* const start = out.as<T>();
  const auto value = [=](std::int32_t x, std::int32_t y, std::int32_t c) {
    const bool is_inside = x >= 0 && x < width && y >= 0 && y < height;
    if (!is_inside) return fill;
    return static_cast<float>(pixels[(static_cast<std::int64_t>(y) * width + x) * channels + c]);
  };
  with_best_code([=] {
    T* to = start;
    for (std::int32_t y = 0; y < height; ++y) {
      for (std::int32_t x = 0; x < width; ++x) {
        const Coordinate at = source_of(warp, x, y);
        const std::int32_t left = whole_below(at.x);
        const std::int32_t top = whole_below(at.y);
        const float across = at.x - static_cast<float>(left);
        const float down = at.y - static_cast<float>(top);
        for (std::int32_t c = 0; c < channels; ++c) {
          const float upper = between(value(left, top, c), value(left + 1, top, c), across);
          const float lower = between(value(left, top + 1, c), value(left + 1, top + 1, c), across);
          *to++ = stored<T>(between(upper, lower, down));
        }
      }
    }
  });
}

}  // namespace

void warp_pixels(const DrawnWarp& warp, FieldKind kind, Interpolation interpolation, float fill,
                 const ConstArray& in, const MutableArray& out, Scratch& scratch) {
  const bool is_image = kind == FieldKind::image;
  const bool is_levels = in.dtype == DType::u8;
  if (is_image && interpolation == Interpolation::bilinear) {
    return is_levels ? warp_bilinear<std::uint8_t>(warp, fill, in, out)
                     : warp_bilinear<float>(warp, fill, in, out);
  }
  std::byte outside[4 * sizeof(float)] = {};
  for (std::size_t c = 0; is_image && c < 4; ++c) {
    if (is_levels) outside[c] = static_cast<std::byte>(fill);
    if (!is_levels) std::memcpy(outside + c * sizeof(float), &fill, sizeof(float));
  }
  warp_nearest(warp, outside, in, out, scratch);
}

}  // namespace slipstream
