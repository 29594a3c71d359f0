#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "slipstream/loader/data_loader.h"

namespace slipstream {

// Shows the image of a sample on a sheet: the sample's first image field, in uint8 or float32,
// height x width x channels.

/// How float images are converted to levels, 0 to 255, for display.
struct ShownLevels {
  /// Maps a value to value * factor + offset, by channel.
  struct ChannelScaling {
    std::array<double, 4> factor = {1, 1, 1, 1};
    std::array<double, 4> offset = {};
  };

  std::vector<ChannelScaling> undone = {};  ///< inverses, applied in this order
  double white = 1;                         ///< the value that is then mapped to 255
};

/// Returns the conversion for the images that `chain` produces from `image`: inverts each Normalize
/// and Divide, in reverse order; white is 255 if ConvertColor or Divide took uint8, else 1.
/// REQUIRES: operations that accept such images
ShownLevels levels_after(const std::vector<NamedOp>& chain, FieldSpec image);

/// Converts `image` (uint8 or float32, height x width x channels) to uint8 of three channels: with
/// one or two channels the first is shown in gray, with more the first three. Floats are rounded
/// and clamped; NaN is black.
HostArray convert_to_rgb(const ConstArray& image, const ShownLevels& levels);

/// Returns the index of the first image field. Throws Refused if the data set has no images, or
/// unless they can be shown both as stored and as in the layout after the transforms.
std::size_t find_image(const std::vector<FieldSpec>& stored, const SlabLayout& layout);

/// Throws BadSample with `sample` for an image of another shape or dtype than declared.
void check_image(const ConstArray& image, std::uint64_t sample);

/// Returns the image of `sample`, whose fields are `fields`, scaled to a square of `side` pixels,
/// with the outlines of its boxes.
HostArray make_image_tile(const Sample& sample, const std::vector<FieldSpec>& fields,
                          std::size_t image, const ShownLevels& levels, std::int64_t side);

}  // namespace slipstream
