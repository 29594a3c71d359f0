#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "slipstream/codecs/image.h"

namespace slipstream::jpeg {

/// Reads height and width (after the EXIF orientation) and the number of components from the
/// header. Throws Error.
Shape shape(std::span<const std::byte> file);

/// Decodes into `out` (uint8, height x width x 3), whose height and width must be those of shape(),
/// and applies the EXIF orientation.
void decode(std::span<const std::byte> file, const DecodeOptions& options, const MutableArray& out);

/// Returns true if decode() gives neither an error nor a warning for a file of one scan. Faster
/// than decoding: it reads all entropy-coded data but computes hardly any pixels.
bool is_sound(std::span<const std::byte> file);

/// See decode_rgb_window(). The region must be inside the image. If `warning` is not null and the
/// codec warns, sets it to the first warning.
std::optional<Window> decode_window(std::span<const std::byte> file, const Window& wanted,
                                    std::string* warning, HostArray& out);

/// See encode_jpeg.
std::vector<std::byte> encode(const ConstArray& pixels, int quality);

}  // namespace slipstream::jpeg
