#include "slipstream/boxes.h"

#include <algorithm>
#include <array>
#include <string>

#include "slipstream/error.h"

namespace slipstream {
namespace {

constexpr std::size_t kSides = 4;

struct Box {
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  /// False for what is not a number.
  bool has_area() const { return x2 > x1 && y2 > y1; }
};

Box around_moved(const AffineMap& map, const Box& box) {
  Box moved;
  bool is_first = true;
  for (const double x : {box.x1, box.x2}) {
    for (const double y : {box.y1, box.y2}) {
      const double to_x = map.xx * x + map.xy * y + map.dx;
      const double to_y = map.yx * x + map.yy * y + map.dy;
      if (is_first) moved = {to_x, to_y, to_x, to_y};
      is_first = false;
      moved = {std::min(moved.x1, to_x), std::min(moved.y1, to_y), std::max(moved.x2, to_x),
               std::max(moved.y2, to_y)};
    }
  }
  return moved;
}

Box moved_box(const AffineMap& map, const Box& box) {
  if (!box.has_area()) return {};
  const Box moved = around_moved(map, box);
  const auto width = static_cast<double>(map.width);
  const auto height = static_cast<double>(map.height);
  return {std::clamp(moved.x1, 0.0, width), std::clamp(moved.y1, 0.0, height),
          std::clamp(moved.x2, 0.0, width), std::clamp(moved.y2, 0.0, height)};
}

}  // namespace

void move_boxes(const AffineMap& map, const ConstArray& in, const MutableArray& out) {
  if (in.dtype != DType::f32 || in.shape.rank != 2 || in.shape[1] != kSides)
    throw Error("boxes are " + std::string(name_of(in.dtype)) + ", " + to_string(in.shape) +
                "; they must be f32, N x 4");
  const auto* from = in.as<float>();
  auto* to = out.as<float>();
  for (std::size_t at = 0; at < in.shape.elements(); at += kSides) {
    const Box box = moved_box(map, {from[at], from[at + 1], from[at + 2], from[at + 3]});
    std::array<float, kSides> sides = {static_cast<float>(box.x1), static_cast<float>(box.y1),
                                       static_cast<float>(box.x2), static_cast<float>(box.y2)};
    if (!(sides[2] > sides[0] && sides[3] > sides[1])) sides = {};
    std::copy(sides.begin(), sides.end(), to + at);
  }
}

}  // namespace slipstream
