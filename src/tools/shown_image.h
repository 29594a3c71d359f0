#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slipstream/loader/data_loader.h"
#include "tools/levels.h"

namespace slipstream {

// The image of a sample on a sheet: that of its first image field, in uint8 or float32, height x
// width x channels.

/// The index of that field. Throws Refused where the data set has no images, and unless they can be
/// shown both as stored and as the layout has them after the transforms.
std::size_t find_image(const std::vector<FieldSpec>& stored, const SlabLayout& layout);

/// Throws BadSample, naming `sample`, for an image of another form than was declared.
void check_image(const ConstArray& image, std::uint64_t sample);

/// The image of `sample`, whose fields are `fields`, scaled to a square of `side` pixels, with the
/// outlines of its boxes.
HostArray tile_of_image(const Sample& sample, const std::vector<FieldSpec>& fields,
                        std::size_t image, const ShownLevels& levels, std::int64_t side);

}  // namespace slipstream
