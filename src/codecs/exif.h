#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace slipstream {

/// EXIF's tag 274: how the stored rows and columns are to be shown. Values 5 to 8 swap height and
/// width.
///   1 as stored      2 mirrored            3 turned by 180 degrees   4 upside down
///   5 transposed     6 turned clockwise    7 transposed, then turned by 180 degrees
///   8 turned anticlockwise
using Orientation = std::uint32_t;
inline constexpr Orientation kAsStored = 1;

inline bool swaps_sides(Orientation orientation) { return orientation >= 5; }

/// Whether the data of an APP1 segment is EXIF (it may be XMP).
bool is_exif(std::span<const std::byte> segment);

/// The orientation that the data of an APP1 segment says; kAsStored where it says none, or what is
/// no orientation, or is no EXIF.
Orientation exif_orientation(std::span<const std::byte> segment);

/// Where the pixels of a stored image go when it is turned: pixel (y, x) to
/// `start + y * per_row + x * per_column`, in pixels.
struct Turn {
  std::ptrdiff_t start = 0;
  std::ptrdiff_t per_row = 0;
  std::ptrdiff_t per_column = 1;
};

/// REQUIRES: orientation is 1 to 8; height and width are those of the stored image
Turn make_turn(Orientation orientation, std::ptrdiff_t height, std::ptrdiff_t width);

}  // namespace slipstream
