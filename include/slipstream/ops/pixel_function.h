#pragma once

#include "slipstream/ops/pixel.h"

namespace slipstream {

/// What a pixel function (pixel_op.h) makes of a pixel: one definition for the CPU and the GPU.
template <int C, typename Function>
SLIPSTREAM_HOST_DEVICE inline Pixel<C> changed(const Function& function, Pixel<C> pixel) {
  if constexpr (requires { function(pixel); }) {
    return function(pixel);
  } else {
    for (int c = 0; c < C; ++c) pixel.value[c] = function(pixel.value[c]);
    return pixel;
  }
}

}  // namespace slipstream
