#pragma once

#include <string>

#include "support/thrown.h"
#include "transforms/op_runner.h"

namespace slipstream {

/// Random levels; channels are independent of each other.
inline Pixels<std::uint8_t> level_image(const Shape& shape) {
  Pixels<std::uint8_t> image{DType::uint8, shape, {}};
  RandomStream stream({.seed = 11});
  for (std::size_t i = 0; i < shape.elements(); ++i) {
    image.values.push_back(static_cast<std::uint8_t>(stream.below(256)));
  }
  return image;
}

/// Random floats from 0 to 1.
inline Pixels<float> unit_image(const Shape& shape) {
  Pixels<float> image{DType::float32, shape, {}};
  RandomStream stream({.seed = 12});
  for (std::size_t i = 0; i < shape.elements(); ++i) image.values.push_back(stream.uniform());
  return image;
}

/// One pixel, one row, one column, more pixels than are processed at a time, and odd sides.
inline std::vector<Shape> list_shapes(std::int64_t channels) {
  return {{1, 1, channels},   {1, 2, channels},    {1, 7, channels},
          {8, 1, channels},   {5, 9, channels},    {16, 16, channels},
          {1, 257, channels}, {3, 1031, channels}, {17, 33, channels}};
}

/// Returns the message with which `op` refuses a field; "nothing" if it accepts it.
template <typename Op>
std::string refused_field(const Op& op, DType dtype, const Shape& shape) {
  return thrown_by([&] { op.output(make_spec(FieldKind::image, dtype, shape)); });
}

}  // namespace slipstream
