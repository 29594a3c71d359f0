#pragma once

#include <cstdint>
#include <vector>

#include "slipstream/transforms/op.h"

namespace slipstream {

using Levels = std::vector<std::uint8_t>;

/// An array that owns its values.
template <typename T>
struct Pixels {
  DType dtype;
  Shape shape;
  std::vector<T> values;

  ConstArray view() const {
    return {reinterpret_cast<const std::byte*>(values.data()), dtype, shape};
  }
  /// Returns value c of pixel (y, x).
  T at(std::int64_t y, std::int64_t x, std::int64_t c = 0) const {
    const std::int64_t channels = shape.rank == 3 ? shape[2] : 1;
    return values.at(static_cast<std::size_t>((y * shape[1] + x) * channels + c));
  }
  bool operator==(const Pixels&) const = default;
};

/// Returns an array whose values differ from pixel to pixel.
template <typename T>
Pixels<T> counted(DType dtype, const Shape& shape) {
  Pixels<T> pixels{dtype, shape, {}};
  for (std::size_t i = 0; i < shape.elements(); ++i) {
    pixels.values.push_back(static_cast<T>(i * 2'654'435'761U >> 8));
  }
  return pixels;
}

inline Pixels<std::uint8_t> counted_image(std::int64_t height, std::int64_t width) {
  return counted<std::uint8_t>(DType::uint8, {height, width, 3});
}

inline FieldSpec make_spec(FieldKind kind, DType dtype, const Shape& shape) {
  return {"photo", kind, dtype, shape, 0};
}

/// Applies `op` to `in`. The output has the type Out and the shape that output() returns, and is
/// filled with wrong values before.
template <typename Out, typename Op, typename In>
Pixels<Out> applied(const Op& op, const typename Op::Drawn& drawn, FieldKind kind,
                    const Pixels<In>& in) {
  const FieldSpec after = op.output(make_spec(kind, in.dtype, in.shape));
  Pixels<Out> out{after.dtype, after.shape, std::vector<Out>(after.shape.elements(), Out{77})};
  Scratch scratch;
  op.apply(drawn, kind, in.view(),
           {reinterpret_cast<std::byte*>(out.values.data()), out.dtype, out.shape}, scratch);
  return out;
}

inline RandomKey make_key(std::uint64_t sample) {
  return {.seed = 5, .epoch = 2, .sample = sample};
}

}  // namespace slipstream
