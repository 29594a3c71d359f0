#pragma once

#include <cstdint>

#include "slipstream/core/array.h"
#include "slipstream/core/philox.h"

namespace slipstream {

/// Draws a scene: a textured background with one to three objects of random classes, under light
/// that varies across the image, with noise. A pure function of its arguments. It uses the random
/// numbers of key.operation and key.operation + 1.
/// `image` becomes size x size x 3, `mask` size x size (both uint8).
void draw_scene(const RandomKey& key, std::int64_t size, std::int64_t classes, HostArray& image,
                HostArray& mask);

/// Like draw_scene(), but with a single object of class `number`, or with none if it is 0.
void draw_object(const RandomKey& key, std::int64_t size, std::uint8_t number, HostArray& image,
                 HostArray& mask);

/// Converts an RGB image to luma (BT.601), height x width.
void to_gray(const ConstArray& rgb, HostArray& gray);

}  // namespace slipstream
