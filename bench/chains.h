#pragma once

#include <vector>

#include "slipstream/ops/blur.h"
#include "slipstream/ops/color.h"
#include "slipstream/ops/resize.h"
#include "slipstream/ops/transforms.h"
#include "slipstream/ops/warp.h"

// What benchmarks of transforms have in common.
namespace slipstream::bench {

inline Normalize normalize() { return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}; }

inline ColorJitter jitter() {
  return {.brightness_min = 0.6,
          .brightness_max = 1.4,
          .contrast_min = 0.6,
          .contrast_max = 1.4,
          .saturation_min = 0.6,
          .saturation_max = 1.4,
          .hue_min = -0.1,
          .hue_max = 0.1};
}

/// Workload W2's: 256 x 256, uint8 to float32.
inline std::vector<NamedOp> classification_chain() {
  return {{"to_float", ToFloat{}},
          {"crop", RandomCrop{128, 128}},
          {"resize", Resize{256, 256, false}},
          {"rotate", Rotate{-45, 45}},
          {"blur", GaussianBlur{7, 0.1, 2.0}},
          {"normalize", normalize()}};
}

inline std::vector<NamedOp> usual_chain() {
  return {{"crop", RandomResizedCrop{224, 224}},
          {"flip", HorizontalFlip{0.5}},
          {"normalize", normalize()}};
}

}  // namespace slipstream::bench
