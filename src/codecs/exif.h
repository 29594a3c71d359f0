#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace slipstream {

/// EXIF tag 274: how the stored rows and columns must be displayed. Values 5 to 8 swap height and
/// width.
///   1 as stored      2 mirrored             3 rotated by 180 degrees   4 upside down
///   5 transposed     6 rotated clockwise    7 transposed, then rotated by 180 degrees
///   8 rotated counterclockwise
using Orientation = std::uint32_t;
inline constexpr Orientation kAsStored = 1;

inline bool swaps_sides(Orientation orientation) { return orientation >= 5; }

/// Returns true if the data of an APP1 segment is EXIF (XMP uses the same marker).
bool is_exif(std::span<const std::byte> segment);

/// Returns the orientation in the data of an APP1 segment, or kAsStored if there is none, if its
/// value is invalid, or if the segment is not EXIF.
Orientation exif_orientation(std::span<const std::byte> segment);

/// Returns the orientation in a TIFF structure, which is EXIF without the start that it has in
/// JPEG, or kAsStored as above.
Orientation tiff_orientation(std::span<const std::byte> tiff);

/// Position of each pixel after applying an orientation: the stored pixel (y, x) moves to index
/// `start + y * per_row + x * per_column`, counted in pixels.
struct Turn {
  std::ptrdiff_t start = 0;
  std::ptrdiff_t per_row = 0;
  std::ptrdiff_t per_column = 1;

  std::ptrdiff_t index(std::ptrdiff_t y, std::ptrdiff_t x) const {
    return start + y * per_row + x * per_column;
  }
};

/// Computes the positions for an orientation.
/// REQUIRES: orientation is 1 to 8; height and width are those of the stored image
Turn make_turn(Orientation orientation, std::ptrdiff_t height, std::ptrdiff_t width);

}  // namespace slipstream
