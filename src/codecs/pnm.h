#pragma once

#include <cstddef>
#include <span>

#include "slipstream/codecs/image.h"

namespace slipstream::pnm {

/// Returns true if `file` begins as a gray or color Netpbm image: P2, P3, P5 or P6, then a blank.
bool starts(std::span<const std::byte> file);

/// Reads height, width and channels (1 or 3) from the header. Throws Error.
Shape shape(std::span<const std::byte> file);

/// Decodes into `out` (uint8, height x width x 3), whose height and width must be those of shape().
/// level = round(value / maximum * 255), as in PIL. Throws Error.
void decode(std::span<const std::byte> file, const DecodeOptions& options, const MutableArray& out);

}  // namespace slipstream::pnm
