#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slipstream/loader/data_loader.h"

namespace slipstream {

// The image of a sample on a sheet: the sample's first image field, in uint8 or float32, height x
// width x channels.

/// How float images become levels, 0 to 255, so that they can be looked at.
struct ShownLevels {
  /// value * factor + offset, by channel.
  struct ChannelScaling {
    std::array<double, 4> factor = {1, 1, 1, 1};
    std::array<double, 4> offset = {};
  };

  std::vector<ChannelScaling> undone = {};  ///< in this order
  double white = 1;                         ///< what becomes 255 after that
};

/// For the images that `chain` returns for `image`: each Normalize and Divide is undone, last
/// first; white is 255 where ConvertColor or Divide took uint8, else 1. REQUIRES: operations that
/// take such images
ShownLevels levels_after(const std::vector<NamedOp>& chain, FieldSpec image);

/// `image` (uint8 or float32, height x width x channels) as uint8 of three channels: one or two
/// channels give the first in gray, more give the first three. Floats are rounded and clamped; NaN
/// is black.
HostArray convert_to_rgb(const ConstArray& image, const ShownLevels& levels);

/// The index of the first image field. Throws Refused where the data set has no images, and unless
/// they can be shown both as stored and as the layout has them after the transforms.
std::size_t find_image(const std::vector<FieldSpec>& stored, const SlabLayout& layout);

/// Throws BadSample, naming `sample`, for an image of another form than was declared.
void check_image(const ConstArray& image, std::uint64_t sample);

/// The image of `sample`, whose fields are `fields`, scaled to a square of `side` pixels, with the
/// outlines of its boxes.
HostArray make_image_tile(const Sample& sample, const std::vector<FieldSpec>& fields,
                          std::size_t image, const ShownLevels& levels, std::int64_t side);

}  // namespace slipstream
