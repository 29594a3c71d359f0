#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "slipstream/codecs/image.h"

namespace slipstream::png {

/// Height, width and channels from the header. Throws Error.
Shape shape(std::span<const std::byte> file);

/// Whether it says how transparent its pixels are, by an alpha channel or a chunk tRNS.
bool has_alpha(std::span<const std::byte> file);

/// Decodes into `out` (uint8, height x width x 3), whose height and width must be those of shape().
void decode_rgb(std::span<const std::byte> file, const DecodeOptions& options,
                const MutableArray& out);

/// Decodes class numbers into `out` (uint8, height x width), of the size that shape() says.
void decode_mask(std::span<const std::byte> file, const DecodeOptions& options,
                 const MutableArray& out);

/// See encode_png.
std::vector<std::byte> encode(const ConstArray& pixels);

}  // namespace slipstream::png
