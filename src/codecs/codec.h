#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "slipstream/codecs/image.h"

namespace slipstream {

/// The functions that read one image format. They are thread-safe.
struct Codec {
  /// Reads height, width and channels from the header. Throws Error.
  Shape (*shape)(std::span<const std::byte> file);
  /// Decodes into `out` (uint8, height x width x 3), whose height and width must be those of
  /// shape(). Throws Error.
  void (*decode)(std::span<const std::byte> file, const DecodeOptions& options,
                 const MutableArray& out);
};

/// Codecs of libraries that may be missing when Slipstream is built. nullptr if this build lacks
/// the library.
const Codec* gif_codec();
const Codec* tiff_codec();
const Codec* webp_codec();

/// Returns the codec of a format, or nullptr if this build lacks its library.
/// REQUIRES: format is not unknown
const Codec* find_codec(ImageFormat format);

/// Returns true if a file of this format may have transparent pixels, which are drawn over
/// DecodeOptions::background.
bool may_be_transparent(std::span<const std::byte> file);

}  // namespace slipstream
