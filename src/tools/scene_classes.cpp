#include "tools/scene_classes.h"

#include <cmath>

namespace slipstream {
namespace {

float squared(float x) { return x * x; }
bool within(float x, float limit) { return std::abs(x) <= limit; }
/// Alternates between false and true along x, `per_unit` times from 0 to 1.
bool odd(float x, float per_unit) {
  const float scaled = x * per_unit * 0.5f;
  return scaled - std::floor(scaled) >= 0.5f;
}

bool everywhere(float, float) { return true; }
bool disc(float u, float v) { return squared(u) + squared(v) <= 1; }
bool ring(float u, float v) { return disc(u, v) && squared(u) + squared(v) >= 0.3f; }
bool square(float u, float v) { return within(u, 0.8f) && within(v, 0.8f); }
bool triangle(float u, float v) { return v >= -0.9f && v <= 0.9f && within(u, (0.9f - v) * 0.55f); }
bool cross(float u, float v) {
  return within(u, 0.95f) && within(v, 0.95f) && (within(u, 0.32f) || within(v, 0.32f));
}
bool stripes(float u, float v) { return square(u, v) && odd(u - 0.8f, 2.5f); }
bool half_disc(float u, float v) { return disc(u, v) && v >= -0.15f; }
bool corner(float u, float v) { return square(u, v) && (u <= -0.2f || v <= -0.2f); }
bool hourglass(float u, float v) { return within(v, 0.9f) && within(u, std::abs(v) * 0.9f + 0.1f); }

bool plain(float, float) { return false; }
bool lines_across(float, float v) { return odd(v, 4); }
bool lines_down(float u, float) { return odd(u, 4); }
bool diagonals(float u, float v) { return odd(u + v, 3); }
bool checks(float u, float v) { return odd(u, 3) != odd(v, 3); }
bool dots(float u, float v) {
  const float x = u * 2.5f - std::floor(u * 2.5f) - 0.5f;
  const float y = v * 2.5f - std::floor(v * 2.5f) - 0.5f;
  return squared(x) + squared(y) <= 0.08f;
}
bool circles(float u, float v) { return odd(squared(u) + squared(v), 4); }
bool grid(float u, float v) { return odd(u, 6) && odd(v, 6); }
bool weave(float u, float v) { return odd(u, 1) != odd(v, 1); }

}  // namespace

const std::array<SceneClass, kSceneClasses>& scene_classes() {
  static constexpr std::array<SceneClass, kSceneClasses> kClasses = {{
      {{44, 42, 40}, {66, 66, 70}, everywhere, weave},
      {{214, 48, 44}, {214, 48, 44}, disc, plain},
      {{44, 164, 66}, {150, 222, 120}, ring, lines_across},
      {{46, 84, 212}, {128, 168, 246}, square, checks},
      {{240, 208, 48}, {196, 132, 20}, triangle, lines_down},
      {{170, 58, 190}, {236, 170, 240}, cross, dots},
      {{240, 240, 236}, {240, 240, 236}, stripes, plain},
      {{40, 190, 198}, {12, 96, 120}, half_disc, diagonals},
      {{240, 132, 40}, {120, 56, 16}, corner, circles},
      {{150, 150, 160}, {110, 100, 130}, hourglass, grid},
  }};
  return kClasses;
}

}  // namespace slipstream
