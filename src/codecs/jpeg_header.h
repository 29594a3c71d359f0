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

/// The content of a JPEG file's header.
struct Header {
  Shape stored;  ///< height, width and components, before the EXIF orientation is applied
  std::uint32_t bits = 0;
  std::uint32_t process = 0;  ///< the low byte of the frame's marker, 0xc0 to 0xcf
  Orientation orientation = kAsStored;
  std::size_t components = 0;  ///< offset of the frame header's list of components

  /// Height, width and components after the EXIF orientation is applied.
  Shape shape() const;
};

/// Reads the header of any kind of JPEG. Throws Error if there is none.
Header read_header(std::span<const std::byte> file);

/// Throws Error for kinds of JPEG that the codec cannot decode, naming the kind: 12 bits, lossless,
/// hierarchical.
void require_decodable(const Header& header);

/// Returns true if the data of a scan contains no marker before the end marker, except restart
/// markers in their order. Decoders differ in how they read other files. A file of one scan for
/// which this is true can be decoded completely without an error.
bool runs_to_its_end(std::span<const std::byte> data, bool has_restarts);

}  // namespace slipstream::jpeg
