#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "slipstream/core/array.h"
#include "slipstream/core/region.h"

namespace slipstream::jpeg {

/// Height, width (as the EXIF orientation turns them) and components from the header. Throws
/// Error.
Shape shape(std::span<const std::byte> file);

/// Decodes into `out` (uint8, height x width x 3), whose height and width must be those of shape(),
/// turned as its EXIF orientation says.
void decode(std::span<const std::byte> file, const MutableArray& out);

/// Throws what decode() throws for a file of one scan, at about half its cost: all that is coded is
/// read, but only an eighth of its width and height is made of it.
void check(std::span<const std::byte> file);

/// See decode_rgb_window; its region must lie in the image.
std::optional<Window> decode_window(std::span<const std::byte> file, const Window& wanted,
                                    HostArray& out);

/// See encode_jpeg.
std::vector<std::byte> encode(const ConstArray& pixels, int quality);

}  // namespace slipstream::jpeg
