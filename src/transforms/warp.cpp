#include "slipstream/transforms/warp.h"

#include <cmath>
#include <limits>
#include <string>

#include "core/number_text.h"
#include "slipstream/core/error.h"
#include "slipstream/transforms/op.h"
#include "transforms/checks.h"
#include "transforms/elementary.h"
#include "transforms/geometry.h"
#include "transforms/interpolation.h"
#include "transforms/padding.h"
#include "transforms/pixel_field.h"
#include "transforms/warp_maps.h"
#include "transforms/warp_pixels.h"

namespace slipstream {
namespace {

constexpr double kMaxDegrees = 360;
constexpr double kMaxShear = 80;
constexpr double kMaxScale = 100;
constexpr std::int64_t kMaxSide = 65'536;

/// A 2 x 2 matrix in row-major order.
struct Matrix {
  double a, b, c, d;
};

Matrix product(const Matrix& l, const Matrix& r) {
  return {l.a * r.a + l.b * r.c, l.a * r.b + l.b * r.d, l.c * r.a + l.d * r.c,
          l.c * r.b + l.d * r.d};
}

Matrix inverse(const Matrix& m) {
  const double by = m.a * m.d - m.b * m.c;
  return {m.d / by, -m.b / by, -m.c / by, m.a / by};
}

double drawn_between(RandomStream& stream, double low, double high) {
  return low + static_cast<double>(stream.uniform()) * (high - low);
}

double tangent(double degrees) {
  const SineCosine of = exact_sine_cosine(degrees);
  return of.sine / of.cosine;
}

/// Returns the inverse of a map that applies `forward` around the center of an image and then
/// translates by `right` and `down`.
DrawnWarp backward(const Matrix& forward, double right, double down, const Shape& shape) {
  const double middle_x = (static_cast<double>(shape[1]) - 1) / 2;
  const double middle_y = (static_cast<double>(shape[0]) - 1) / 2;
  const Matrix m = inverse(forward);
  const double from_x = middle_x + right;
  const double from_y = middle_y + down;
  const double x = middle_x - m.a * from_x - m.b * from_y;
  const double y = middle_y - m.c * from_x - m.d * from_y;
  return {{static_cast<float>(m.a), static_cast<float>(m.b), static_cast<float>(x),
           static_cast<float>(m.c), static_cast<float>(m.d), static_cast<float>(y)},
          static_cast<std::int32_t>(shape[0]),
          static_cast<std::int32_t>(shape[1])};
}

/// Returns a counterclockwise rotation.
Matrix turned(double degrees) {
  const SineCosine of = exact_sine_cosine(degrees);
  return {of.cosine, of.sine, -of.sine, of.cosine};
}

FieldSpec warped(std::string_view op, const FieldSpec& in, double fill) {
  FieldSpec out = resided(op, in, in.shape[0], in.shape[1]);
  if (in.kind == FieldKind::mask) return out;
  require_channels(op, in);
  require_fill_for(op, {fill}, in);
  return out;
}

}  // namespace

void require_countable(std::string_view op, const Shape& shape) {
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (shape[0] <= kMaxSide && shape[1] <= kMaxSide && shape[0] * shape[1] <= most) return;
  throw UnfitSample(std::string(op) + ": the image is " + to_string(shape) +
                    "; it must have at most " + std::to_string(kMaxSide) +
                    " pixels per side and fewer than 2^31 in total");
}

void require_two_by_two(std::string_view op, Interpolation interpolation) {
  if (interpolation == Interpolation::nearest || interpolation == Interpolation::bilinear) return;
  throw Refused(std::string(op) + ": the interpolation must be nearest or bilinear");
}

DrawnWarp rotation(double degrees, const Shape& shape) {
  return backward(turned(degrees), 0, 0, shape);
}

AffineMap forward(const DrawnWarp& drawn) {
  const Matrix m = inverse({drawn.m[0], drawn.m[1], drawn.m[3], drawn.m[4]});
  // Pixel centers are integers in a DrawnWarp, and half-integers in an AffineMap.
  constexpr double kCenter = 0.5;
  const double from_x = drawn.m[2] + kCenter;
  const double from_y = drawn.m[5] + kCenter;
  return {m.a,          m.b,        kCenter - m.a * from_x - m.b * from_y,
          m.c,          m.d,        kCenter - m.c * from_x - m.d * from_y,
          drawn.height, drawn.width};
}

void RandomRotation::validate() const {
  require_all(
      [&] { require_range(kName, "the angle", degrees[0], degrees[1], -kMaxDegrees, kMaxDegrees); },
      [&] { require_two_by_two(kName, interpolation); },
      [&] { require_number(kName, "fill", fill); });
}

FieldSpec RandomRotation::output(const FieldSpec& in) const { return warped(kName, in, fill); }

RandomRotation::Drawn RandomRotation::draw(const RandomKey& key, const Shape& shape) const {
  require_countable(kName, shape);
  RandomStream stream(key);
  return backward(turned(drawn_between(stream, degrees[0], degrees[1])), 0, 0, shape);
}

void RandomRotation::apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
                           Scratch& scratch) const {
  require_drawn_for(kName, {{}, drawn.height, drawn.width}, in);
  warp_pixels(drawn, kind, interpolation, filling(fill), in, out, scratch);
}

void RandomAffine::validate() const {
  const auto within = [](const char* what, double low, double high, double least, double most) {
    return [=] { require_range(kName, what, low, high, least, most); };
  };
  const auto share = [](const char* what, double value) {
    return [=] {
      if (value >= 0 && value <= 1) return;
      throw Refused(std::string(kName) + ": " + what + " is " + number_text(value) +
                    "; it must be 0 to 1, a fraction of the image's side");
    };
  };
  require_all(
      within("the angle", degrees[0], degrees[1], -kMaxDegrees, kMaxDegrees),
      share("translate[0]", translate[0]), share("translate[1]", translate[1]),
      within("the scale", scale[0], scale[1], 1 / kMaxScale, kMaxScale),
      within("the shear along x", shear[0], shear[1], -kMaxShear, kMaxShear),
      within("the shear along y", shear[2], shear[3], -kMaxShear, kMaxShear),
      [&] { require_two_by_two(kName, interpolation); },
      [&] { require_number(kName, "fill", fill); });
}

FieldSpec RandomAffine::output(const FieldSpec& in) const { return warped(kName, in, fill); }

bool RandomAffine::is_random() const {
  return degrees[0] != degrees[1] || translate[0] > 0 || translate[1] > 0 || scale[0] != scale[1] ||
         shear[0] != shear[1] || shear[2] != shear[3];
}

RandomAffine::Drawn RandomAffine::draw(const RandomKey& key, const Shape& shape) const {
  require_countable(kName, shape);
  RandomStream stream(key);
  const Matrix turn = turned(-drawn_between(stream, degrees[0], degrees[1]));
  const double reach_x = translate[0] * static_cast<double>(shape[1]);
  const double reach_y = translate[1] * static_cast<double>(shape[0]);
  const double right = std::floor(drawn_between(stream, -reach_x, reach_x) + 0.5);
  const double down = std::floor(drawn_between(stream, -reach_y, reach_y) + 0.5);
  const double factor = drawn_between(stream, scale[0], scale[1]);
  const double tangent_x = tangent(drawn_between(stream, shear[0], shear[1]));
  const double tangent_y = tangent(drawn_between(stream, shear[2], shear[3]));
  const Matrix sheared = product({1, 0, -tangent_y, 1}, {1, -tangent_x, 0, 1});
  const Matrix scaled = product({factor, 0, 0, factor}, sheared);
  return backward(product(turn, scaled), right, down, shape);
}

void RandomAffine::apply(const Drawn& drawn, FieldKind kind, ConstArray in, MutableArray out,
                         Scratch& scratch) const {
  require_drawn_for(kName, {{}, drawn.height, drawn.width}, in);
  warp_pixels(drawn, kind, interpolation, filling(fill), in, out, scratch);
}

}  // namespace slipstream
