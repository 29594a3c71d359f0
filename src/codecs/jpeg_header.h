#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codecs/exif.h"
#include "slipstream/core/array.h"

namespace slipstream::jpeg {

// The low bytes of markers.
inline constexpr std::uint32_t kEndOfImage = 0xd9;
inline constexpr std::uint32_t kStartOfScan = 0xda;

/// What a JPEG file says ahead of its pixels.
struct Header {
  Shape stored;  ///< height, width and components, before it is turned
  std::uint32_t bits = 0;
  std::uint32_t process = 0;  ///< the low byte of the frame's marker, 0xc0 to 0xcf
  Orientation orientation = kAsStored;
  std::size_t components = 0;  ///< offset of the frame header's list of components

  /// Height, width and components as the image is shown.
  Shape shape() const;
};

/// Throws Error for what has no header, whatever kind of JPEG it is.
Header read_header(std::span<const std::byte> file);

/// Throws Error naming the kind of JPEG that the codec cannot decode: 12 bits, lossless,
/// hierarchical.
void require_decodable(const Header& header);

/// Whether an end marker is the first marker in the data of a scan, apart from restart markers in
/// their order. Decoders differ in how they read other files. A file of one scan that runs to its
/// end can be decoded whole without an error.
bool runs_to_its_end(std::span<const std::byte> data, bool has_restarts);

}  // namespace slipstream::jpeg
