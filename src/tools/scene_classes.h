#pragma once

#include <array>

namespace slipstream {

struct Color {
  float red = 0;
  float green = 0;
  float blue = 0;
};

/// The appearance of a class of a scene. Coordinates are relative to the object: its center is (0,
/// 0), and it is inside -1 ... 1.
struct SceneClass {
  Color base;
  Color accent;
  bool (*covers)(float u, float v);
  bool (*is_accent)(float u, float v);  ///< true where the texture has the accent color
};

inline constexpr int kSceneClasses = 10;

/// The appearance of each class. Class 0 is the background, whose pattern is in units of a
/// sixteenth of the image.
const std::array<SceneClass, kSceneClasses>& scene_classes();

}  // namespace slipstream
