#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "slipstream/codecs/image.h"

namespace slipstream::png {

/// Reads height, width and channels from the header. Throws Error.
Shape shape(std::span<const std::byte> file);

/// Returns true if the file has transparency: an alpha channel or a tRNS chunk.
bool has_alpha(std::span<const std::byte> file);

/// Decodes into `out` (uint8, height x width x 3), whose height and width must be those of shape().
void decode_rgb(std::span<const std::byte> file, const DecodeOptions& options,
                const MutableArray& out);

/// Decodes class indices into `out` (uint8, height x width), whose size must be that of shape().
void decode_mask(std::span<const std::byte> file, const DecodeOptions& options,
                 const MutableArray& out);

/// See encode_png.
std::vector<std::byte> encode(const ConstArray& pixels);

}  // namespace slipstream::png
