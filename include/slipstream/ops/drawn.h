#pragma once

#include <cstdint>

#include "slipstream/core/philox.h"
#include "slipstream/core/region.h"

// What operations draw for a sample (op.h), as the CPU and the GPU read it: their headers say how.
namespace slipstream {

struct AffineMap;  // boxes.h
struct Size;       // size.h

enum class Interpolation : std::uint8_t { nearest, bilinear };

/// A crop that was drawn for an image of height x width, of which an array holds 1 / reduction of
/// each side, rounded up.
struct DrawnCrop {
  Region region;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t reduction = 1;

  /// The part of `region` that lies in the image.
  Region inside() const;
  /// By how much `region` may be shrunk, in whole numbers, and still have that many pixels a side;
  /// at least 1.
  std::int64_t reduction_to(const Size& size) const;
  /// The same crop of what is left of the image when only `window` is there.
  DrawnCrop within(const Window& window) const;
  /// Where pixels of the image lie when `region` is resized.
  AffineMap resized_to(const Size& size) const;
};

/// Of RandomHorizontalFlip and RandomVerticalFlip.
struct DrawnFlip {
  bool flips = false;
};

/// Of Grayscale and RandomGrayscale.
struct DrawnGrayscale {
  bool is_gray = false;
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

/// A rectangle drawn for an image of image_height x image_width; empty: nothing.
struct DrawnErasing {
  std::int32_t top = 0;
  std::int32_t left = 0;
  std::int32_t height = 0;
  std::int32_t width = 0;
  std::int32_t image_height = 0;
  std::int32_t image_width = 0;
};

/// From an affine map of output coordinates: x = m[0] x' + m[1] y' + m[2], y likewise from m[3] on.
struct DrawnWarp {
  float m[6];
  std::int32_t height;  ///< of the image that it was drawn for
  std::int32_t width;
};

/// The four parts of ColorJitter.
enum class Jitter : std::int32_t { brightness, contrast, saturation, hue };

/// What ColorJitter draws for a sample.
struct DrawnJitter {
  static constexpr int kSteps = 4;
  Jitter order[kSteps] = {Jitter::brightness, Jitter::contrast, Jitter::saturation, Jitter::hue};
  float brightness = 1;
  float contrast = 1;
  float saturation = 1;
  float hue = 0;

  /// Whether a part changes anything; one that does not is left out.
  SLIPSTREAM_HOST_DEVICE bool has(Jitter step) const {
    if (step == Jitter::brightness) return brightness != 1.0F;
    if (step == Jitter::contrast) return contrast != 1.0F;
    return step == Jitter::saturation ? saturation != 1.0F : hue != 0.0F;
  }
  /// The place of contrast in `order`: what comes before it makes the image that the mean is of.
  SLIPSTREAM_HOST_DEVICE int contrast_place() const {
    int place = 0;
    while (place < kSteps && order[place] != Jitter::contrast) ++place;
    return place;
  }
};

}  // namespace slipstream
