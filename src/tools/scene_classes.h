#pragma once

#include <array>

namespace slipstream {

struct Color {
  float red = 0;
  float green = 0;
  float blue = 0;
};

/// What class k of a scene looks like. Coordinates are the object's own: its middle is (0, 0), and
/// it lies within -1 ... 1.
struct SceneClass {
  Color base;
  Color accent;
  bool (*covers)(float u, float v);
  bool (*is_accent)(float u, float v);  ///< which of the two colors the texture has here
};

inline constexpr int kSceneClasses = 10;

/// Class 0 is the background: its pattern is in units of a sixteenth of the image.
const std::array<SceneClass, kSceneClasses>& scene_classes();

}  // namespace slipstream
