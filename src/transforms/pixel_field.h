#pragma once

#include <string_view>
#include <type_traits>

#include "slipstream/transforms/op.h"
#include "slipstream/transforms/pixel.h"

namespace slipstream {

/// Helpers shared by operations on the values of images. `op` is the operation's name in messages.

/// Throws Refused unless `in` is uint8 or float32, height x width x `least` to `most` channels.
void require_pixels(std::string_view op, const FieldSpec& in, std::int64_t least,
                    std::int64_t most);
/// Throws Refused unless low <= high and both are in the range `least` to `most`. `what` is their
/// name in messages.
void require_range(std::string_view op, std::string_view what, double low, double high,
                   double least, double most);

/// The Range of images whose values have type T.
template <typename T>
constexpr Range kRangeOf = std::is_same_v<T, std::uint8_t> ? Range::levels : Range::unit;

FieldSpec as_f32(const FieldSpec& in);
/// Returns height x width.
std::size_t count_pixels(const ConstArray& array);

/// Rounds values to levels, ties to even.
void store_levels(const float* values, std::int64_t count, std::uint8_t* levels);

/// Calls make(floats) to compute `count` values for `to`: directly into `to`, or for uint8 into
/// `spare`, which is then rounded into `to`.
template <typename T, typename Make>
void store_made(T* to, std::int64_t count, float* spare, const Make& make) {
  if constexpr (sizeof(T) == 1) {
    make(spare);
    store_levels(spare, count, to);
  } else {
    make(to);
  }
}

}  // namespace slipstream
