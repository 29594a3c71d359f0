#pragma once

#include <cstddef>
#include <span>

#include "slipstream/codecs/image.h"

namespace slipstream::bmp {

/// Returns true if `file` begins as a BMP file with a known kind of header.
bool starts(std::span<const std::byte> file);

/// Reads height, width and channels (1 with a palette, else 3) from the header. Throws Error.
Shape shape(std::span<const std::byte> file);

/// Decodes into `out` (uint8, height x width x 3), whose height and width must be those of shape().
/// Throws Error.
void decode(std::span<const std::byte> file, const DecodeOptions& options, const MutableArray& out);

}  // namespace slipstream::bmp
