#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "slipstream/codecs/image.h"

namespace slipstream::jpeg {

/// Height, width (as the EXIF orientation turns them) and components from the header. Throws
/// Error.
Shape shape(std::span<const std::byte> file);

/// Decodes into `out` (uint8, height x width x 3), whose height and width must be those of shape(),
/// turned as its EXIF orientation says.
void decode(std::span<const std::byte> file, const DecodeOptions& options, const MutableArray& out);

/// Returns whether decode() gives neither an error nor a warning for a file of one scan. Costs less
/// than decoding: all codes are read, but hardly any pixels are computed.
bool is_sound(std::span<const std::byte> file);

/// See decode_rgb_window; its region must lie in the image. Sets `warning`, unless it is null, to
/// the first warning, if there is one.
std::optional<Window> decode_window(std::span<const std::byte> file, const Window& wanted,
                                    std::string* warning, HostArray& out);

/// See encode_jpeg.
std::vector<std::byte> encode(const ConstArray& pixels, int quality);

}  // namespace slipstream::jpeg
