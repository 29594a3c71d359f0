#pragma once

#include <vector>

#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"

// Chains that several benchmarks of transforms use.
namespace slipstream::bench {

inline Normalize normalize() { return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}; }

inline ColorJitter jitter() {
  return {.brightness = {0.6, 1.4},
          .contrast = {0.6, 1.4},
          .saturation = {0.6, 1.4},
          .hue = {-0.1, 0.1}};
}

/// The transforms of workload W2: 256 x 256, uint8 to float32.
inline std::vector<NamedOp> classification_chain() {
  return {{"to_float", ToDtype{.scale = true}},  {"crop", RandomCrop{128}},
          {"resize", Resize{{256, 256}, false}}, {"rotate", RandomRotation{{-45, 45}}},
          {"blur", GaussianBlur{7, {0.1, 2.0}}}, {"normalize", normalize()}};
}

inline std::vector<NamedOp> usual_chain() {
  return {{"crop", RandomResizedCrop{224}},
          {"flip", RandomHorizontalFlip{0.5}},
          {"normalize", normalize()}};
}

}  // namespace slipstream::bench
