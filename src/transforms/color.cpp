#include "slipstream/transforms/color.h"

#include <string>

#include "core/number_text.h"
#include "slipstream/core/error.h"
#include "transforms/best_code.h"
#include "transforms/checks.h"
#include "transforms/color_math.h"
#include "transforms/geometry.h"
#include "transforms/pixel_field.h"
#include "transforms/pixel_planes.h"
#include "transforms/pointwise.h"

namespace slipstream {
namespace {

template <typename T>
void make_gray(const ConstArray& in, const MutableArray& out) {
  const T* from = in.as<T>();
  T* to = out.as<T>();
  const std::size_t pixels = count_pixels(in);
  with_best_code([=] {
    change_planes<3>(from, to, pixels, [](Planes<3>& planes, std::size_t count) {
      planes.change(count, [](const Pixel<3>& pixel) { return grayed(pixel, kRangeOf<T>); });
    });
  });
}

void make_gray_where(DrawnGrayscale drawn, const ConstArray& in, const MutableArray& out) {
  if (!drawn.is_gray) return copy_all(in, out);
  if (in.dtype == DType::uint8) return make_gray<std::uint8_t>(in, out);
  make_gray<float>(in, out);
}

template <typename T>
void convert(const ConstArray& in, const MutableArray& out, const ColorMatrix& matrix) {
  const T* from = in.as<T>();
  auto* to = out.as<float>();
  const std::size_t pixels = count_pixels(in);
  with_best_code([=] {
    change_planes<3>(from, to, pixels, [&](Planes<3>& planes, std::size_t count) {
      planes.change(count, [&](const Pixel<3>& pixel) { return converted(pixel, matrix); });
    });
  });
}

template <typename T>
void divide(const ConstArray& in, const MutableArray& out, float divisor) {
  const T* __restrict from = in.as<T>();
  float* __restrict to = out.as<float>();
  const std::size_t count = in.shape.elements();
  with_best_code([=] {
    for (std::size_t i = 0; i < count; ++i) to[i] = scaled(static_cast<float>(from[i]), divisor);
  });
}

}  // namespace

void Grayscale::validate() const {
  if (num_output_channels == 3) return;
  throw Refused(
      "grayscale: num_output_channels is " + std::to_string(num_output_channels) +
      "; it must be 3, because images keep their channels: write 3, and all channels become gray");
}

FieldSpec Grayscale::output(const FieldSpec& in) const {
  require_pixels(kName, in, 3, 3);
  return in;
}

void Grayscale::apply(Drawn drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
  make_gray_where(drawn, in, out);
}

void RandomGrayscale::validate() const { require_probability(kName, p); }

FieldSpec RandomGrayscale::output(const FieldSpec& in) const {
  require_pixels(kName, in, 3, 3);
  return in;
}

RandomGrayscale::Drawn RandomGrayscale::draw(const RandomKey& key, const Shape&) const {
  return {is_applied(key, p)};
}

void RandomGrayscale::apply(Drawn drawn, FieldKind, ConstArray in, MutableArray out,
                            Scratch&) const {
  make_gray_where(drawn, in, out);
}

void ConvertColor::validate() const {
  const auto are_numbers = [](const char* what, const auto& values) {
    return [what, &values] {
      for (const double value : values) require_number(kName, what, value);
    };
  };
  require_all(are_numbers("a number of the matrix", matrix),
              are_numbers("a number of the offset", offset));
}

FieldSpec ConvertColor::output(const FieldSpec& in) const {
  require_pixels(kName, in, 3, 3);
  return as_f32(in);
}

ColorMatrix to_float32(const ConvertColor& op) {
  ColorMatrix out{};
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < 3; ++i) out.row[c][i] = static_cast<float>(op.matrix[3 * c + i]);
    out.offset[c] = static_cast<float>(op.offset[c]);
  }
  return out;
}

void ConvertColor::apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
  if (in.dtype == DType::uint8) return convert<std::uint8_t>(in, out, to_float32(*this));
  convert<float>(in, out, to_float32(*this));
}

void Divide::validate() const {
  require_number(kName, "the divisor", divisor);
  if (static_cast<float>(divisor) != 0) return;
  throw Refused("divide: the divisor is " + number_text(divisor) + "; it must not be 0");
}

FieldSpec Divide::output(const FieldSpec& in) const {
  require_channels(kName, in);
  return as_f32(in);
}

void Divide::apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
  const auto by = static_cast<float>(divisor);
  if (in.dtype == DType::uint8) return divide<std::uint8_t>(in, out, by);
  divide<float>(in, out, by);
}

}  // namespace slipstream
