#pragma once

#include "slipstream/philox.h"

// What operations draw for a sample (op.h), as the CPU and the GPU read it: their headers say how.
// The larger ones stand with their arithmetic (interpolation.h, colour_math.h, mask_math.h).
namespace slipstream {

/// Of HorizontalFlip and VerticalFlip.
struct DrawnFlip {
  bool flips = false;
};

/// Of Greyscale.
struct DrawnGreyscale {
  bool is_grey = false;
};

/// Of RandomMask.
struct DrawnMask {
  RandomWords key;
};

/// Of GaussianBlur: a kernel that is the same to the left and to the right.
struct DrawnBlur {
  static constexpr int kMaxRadius = 31;
  float weight[kMaxRadius + 1];  ///< by distance from the middle
};

}  // namespace slipstream
