#include "slipstream/transforms/op.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "slipstream/core/error.h"
#include "transforms/box_form.h"

namespace slipstream {
namespace {

constexpr std::size_t kSides = 4;

struct Box {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  /// Returns false if a side is NaN.
  bool has_area() const { return x2 > x1 && y2 > y1; }
};

/// Returns the minimum and maximum of a x + b y + c in `box`. A linear function takes them at
/// corners.
std::pair<double, double> reach(double a, double b, double c, const Box& box) {
  const auto across = std::minmax({a * box.x1, a * box.x2});
  const auto down = std::minmax({b * box.y1, b * box.y2});
  return {across.first + down.first + c, across.second + down.second + c};
}

Box moved_box(const AffineMap& map, const Box& box) {
  if (!box.has_area()) return {};
  const auto [left, right] = reach(map.xx, map.xy, map.dx, box);
  const auto [top, bottom] = reach(map.yx, map.yy, map.dy, box);
  const auto width = static_cast<double>(map.width);
  const auto height = static_cast<double>(map.height);
  return {std::clamp(left, 0.0, width), std::clamp(top, 0.0, height), std::clamp(right, 0.0, width),
          std::clamp(bottom, 0.0, height)};
}

std::string to_text(DType dtype, const Shape& shape) {
  return "are " + std::string(to_string(dtype)) + ", " + to_string(shape) +
         "; they must be float32, N x 4";
}

}  // namespace

bool has_form_of_boxes(DType dtype, const Shape& shape) {
  return dtype == DType::float32 && shape.rank == 2 && shape[1] == kSides;
}

std::string problem_of_boxes(const FieldSpec& field) {
  if (field.kind != FieldKind::boxes || has_form_of_boxes(field.dtype, field.shape)) return "";
  return "boxes '" + field.name + "' " + to_text(field.dtype, field.shape);
}

void move_boxes(const AffineMap& map, const ConstArray& in, const MutableArray& out) {
  if (!has_form_of_boxes(in.dtype, in.shape)) throw Error("boxes " + to_text(in.dtype, in.shape));
  const auto* from = in.as<float>();
  auto* to = out.as<float>();
  for (std::size_t at = 0; at < in.shape.elements(); at += kSides) {
    const Box box = moved_box(map, {from[at], from[at + 1], from[at + 2], from[at + 3]});
    std::array<float, kSides> sides = {static_cast<float>(box.x1), static_cast<float>(box.y1),
                                       static_cast<float>(box.x2), static_cast<float>(box.y2)};
    // Checked after rounding to float32, which can remove a tiny area.
    if (!(sides[2] > sides[0] && sides[3] > sides[1])) sides = {};
    std::copy(sides.begin(), sides.end(), to + at);
  }
}

}  // namespace slipstream
