#pragma once

#include <cstdint>

#include "slipstream/core/philox.h"
#include "slipstream/core/region.h"

// The random parameters of operations (op.h) for one sample, in the memory layout that the CPU and
// the GPU read. The headers of the operations specify how they are generated.
namespace slipstream {

struct AffineMap;  // boxes.h
struct Size;       // region.h

/// How a value between pixels is computed, with the names and meanings of torchvision's
/// InterpolationMode. resize.h and warp.h define the arithmetic.
enum class Interpolation : std::uint8_t {
  nearest,        ///< a pixel near it; a resize rounds the position down
  nearest_exact,  ///< the pixel whose center is nearest
  bilinear,       ///< from the 2 x 2 pixels around it
  bicubic,        ///< from the 4 x 4 pixels around it
};

/// The values of pixels that are added around an image, with the names and meanings of torchvision.
enum class PaddingMode : std::uint8_t {
  constant,   ///< given values
  edge,       ///< the nearest pixel of the image
  reflect,    ///< the image, mirrored at its outermost pixels, which are not repeated
  symmetric,  ///< the image, mirrored at its edges, so that the outermost pixels are repeated
};

/// A crop of an image of height x width pixels. If reduction is not 1, the array holds that image
/// downscaled to 1 / reduction of its height and width, rounded up.
struct DrawnCrop {
  Region region;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t reduction = 1;

  /// Returns the part of `region` that is inside the image; one pixel if there is none.
  /// REQUIRES: the image has pixels
  Region inside() const;
  /// Returns the largest integer, at least 1, by which `region` can be downscaled and still have at
  /// least `size` pixels in height and width.
  std::int64_t reduction_to(const Size& size) const;
  /// Returns the same crop for an array that holds only `window` of the image.
  DrawnCrop within(const Window& window) const;
  /// Returns how points of the image move when `region` is resized to `size`.
  AffineMap resized_to(const Size& size) const;
};

/// The parameters of RandomHorizontalFlip and RandomVerticalFlip.
struct DrawnFlip {
  bool flips = false;
};

/// The parameters of Grayscale and RandomGrayscale.
struct DrawnGrayscale {
  bool is_gray = false;
};

/// The parameters of the operations in adjust.h.
struct DrawnAdjustment {
  bool applies = false;  ///< if false, the image is not changed
};

/// The parameters of RandomMask: the key from which the random bits of its pixels are generated.
struct DrawnMask {
  RandomWords key;
};

/// The parameters of GaussianBlur: the weights of a symmetric kernel.
struct DrawnBlur {
  static constexpr int kMaxRadius = 31;
  float weight[kMaxRadius + 1];  ///< weight by distance from the center
};

/// The rectangle that RandomErasing fills in an image of image_height x image_width pixels. With a
/// height and width of 0 nothing is erased.
struct DrawnErasing {
  std::int32_t top = 0;
  std::int32_t left = 0;
  std::int32_t height = 0;
  std::int32_t width = 0;
  std::int32_t image_height = 0;
  std::int32_t image_width = 0;
};

/// The inverse map of RandomRotation and RandomAffine. It maps the output's coordinates x', y' to
/// those of the input: x = m[0] x' + m[1] y' + m[2], y = m[3] x' + m[4] y' + m[5].
struct DrawnWarp {
  float m[6];
  std::int32_t height;  ///< height of the image that it was generated for
  std::int32_t width;   ///< width of that image
};

/// The augmentations of RandAugment, TrivialAugmentWide and AutoAugment.
enum class Augmentation : std::int32_t {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize,
  invert
};

/// The parameters of RandAugment, TrivialAugmentWide and AutoAugment: augmentations of an image of
/// height x width pixels, in order.
struct DrawnAugmentations {
  static constexpr int kMost = 8;
  struct Step {
    Augmentation kind = Augmentation::identity;
    float magnitude = 0;  ///< with its sign
    DrawnWarp warp = {};  ///< the inverse map, if the augmentation moves pixels
  };
  Step steps[kMost];
  std::int32_t count = 0;
  std::int32_t height = 0;
  std::int32_t width = 0;
};

/// The four steps of ColorJitter.
enum class Jitter : std::int32_t { brightness, contrast, saturation, hue };

/// The parameters of ColorJitter: the order of its steps, and their factors.
struct DrawnJitter {
  static constexpr int kSteps = 4;
  Jitter order[kSteps] = {Jitter::brightness, Jitter::contrast, Jitter::saturation, Jitter::hue};
  float brightness = 1;
  float contrast = 1;
  float saturation = 1;
  float hue = 0;

  /// Returns true if `step` changes anything. A step that does not is skipped.
  SLIPSTREAM_HOST_DEVICE bool has(Jitter step) const {
    if (step == Jitter::brightness) return brightness != 1.0F;
    if (step == Jitter::contrast) return contrast != 1.0F;
    return step == Jitter::saturation ? saturation != 1.0F : hue != 0.0F;
  }
  /// Index of contrast in `order`. The mean gray for contrast is that of the image after the steps
  /// before it.
  SLIPSTREAM_HOST_DEVICE int contrast_place() const {
    int place = 0;
    while (place < kSteps && order[place] != Jitter::contrast) ++place;
    return place;
  }
};

}  // namespace slipstream
