#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "transforms/op_runner.h"

namespace slipstream {

// Helpers for operations that compute in float32 on images of either dtype. Results are compared
// bit for bit with plain loops that follow the definitions in the headers.

template <typename T>
constexpr DType get_dtype() {
  return sizeof(T) == 1 ? DType::uint8 : DType::float32;
}

/// Returns an image whose values differ from pixel to pixel: levels, or floats from 0 to 1.
template <typename T>
Pixels<T> picture(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Pixels<T> pixels{get_dtype<T>(), {height, width, channels}, {}};
  for (std::size_t i = 0; i < pixels.shape.elements(); ++i) {
    const auto word = static_cast<std::uint32_t>((i + 1) * 2'654'435'761U);
    pixels.values.push_back(sizeof(T) == 1 ? static_cast<T>(word >> 24)
                                           : static_cast<T>(word >> 8) * T(0x1p-24));
  }
  return pixels;
}

/// The sizes of an image before and after a resize.
struct ResizedTo {
  std::int64_t height, width, to_height, to_width;
};

inline std::string to_text(const ResizedTo& size) {
  return to_string(Shape{size.height, size.width}) + " to " +
         to_string(Shape{size.to_height, size.to_width});
}

/// Converts a float to a value of an image; for levels it is rounded, halves to even, and clamped
/// to 0 to 255.
template <typename T>
T held(float value) {
  if constexpr (sizeof(T) == 1) {
    return static_cast<T>(std::clamp(std::nearbyint(value), 0.0F, 255.0F));
  } else {
    return value;
  }
}

/// Calls test(T{}, channels) for every kind of image that these operations accept.
template <typename Test>
void for_each_image_kind(Test test) {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    SCOPED_TRACE(std::to_string(channels) + " channels");
    test(std::uint8_t{}, channels);
    test(float{}, channels);
  }
}

}  // namespace slipstream
