#pragma once

#include <cstddef>
#include <cstdint>

namespace slipstream::augment {

/// How a pass gets at a pixel before its stencil.
enum class Way : std::uint8_t {
  direct,  ///< it has no interpolation
  linear,  ///< a resize without a filter
  warp,    ///< a bilinear warp
  filter,  ///< an antialiased resize
};

/// How much of what lies before the interpolation a block has in shared memory.
struct StageSpace {
  std::int32_t floats;   ///< of pixels
  std::int32_t pitch;    ///< from row to row of them, in floats; 0: every tile has its own
  std::int32_t entries;  ///< of each axis
  std::int32_t taps;     ///< of a filter
};

/// Where one row, or one column, of what an interpolation makes comes from.
struct alignas(8) AxisEntry {
  std::int32_t offset;  ///< of the first value, in bytes
  union {
    float weight;        ///< linear: of the second value
    std::int32_t count;  ///< filter: of the values
  };
};

/// Of the entries of both axes with their weights, in front of the pixels.
constexpr std::uint32_t table_bytes(const StageSpace& room) {
  const std::uint32_t entry = sizeof(AxisEntry) + 4 * static_cast<std::uint32_t>(room.taps);
  return (2 * entry * static_cast<std::uint32_t>(room.entries) + 15) / 16 * 16;
}

/// The tiles of all images of a batch, a block each.
struct Grid {
  std::int32_t across;
  std::int32_t tiles;   ///< of an image
  std::int32_t width;   ///< of a tile: a multiple of 32
  std::int32_t height;  ///< of kPatchHeight, and of the rows that a turn of the threads stores
};

/// How a pass is launched.
struct LaunchShape {
  Grid grid;
  StageSpace room;
  /// Whether `room` does for all samples; a block that it is too small for reads the source.
  bool always_fits;
  std::uint32_t stores_at;     ///< in shared memory, in bytes: for pixels that warps store
  std::uint32_t planes_at;     ///< what a stencil works on
  std::uint32_t shared_bytes;  ///< all of it
};

inline constexpr int kPlainThreads = 256;
inline constexpr int kBlurThreads = 512;
/// Blocks of a blur that share a multiprocessor.
inline constexpr int kBlurBlocks = 2;
/// Values of a row that a blurring thread filters at once, and pixels of a column that it then
/// makes.
inline constexpr int kRun = 8;
inline constexpr int kRows = 8;

/// A warp makes the pixels of a patch at once: what they need of shared memory then seldom meets in
/// a bank, at any angle.
inline constexpr int kPatchWidth = 4;
inline constexpr int kPatchHeight = 8;
/// Four patches next to each other, of which a thread makes a pixel each.
inline constexpr int kPatchesWidth = 4 * kPatchWidth;

/// Of shared memory for the pixels that a warp stores.
constexpr std::uint32_t store_bytes(std::int32_t channels) {
  return 32 * 16 * static_cast<std::uint32_t>(channels);
}

/// From row to row of patches next to each other that a warp stores, in values.
constexpr std::int32_t patches_pitch(std::int32_t channels) { return kPatchesWidth * channels + 4; }

/// The same as store_bytes() for patches.
constexpr std::uint32_t patches_bytes(std::int32_t channels) {
  return kPatchHeight * 4 * static_cast<std::uint32_t>(patches_pitch(channels));
}

/// Pixels before an interpolation that a thread reads at once.
inline constexpr int kTexels = 4;

/// From row to row of the pixels before an interpolation, in floats: room for runs of kTexels, and
/// an odd multiple of 4, so that few of a patch meet in a bank.
constexpr std::int32_t texel_pitch(std::int32_t columns, std::int32_t channels) {
  const std::int32_t floats = (columns + kTexels - 1) / kTexels * kTexels * channels;
  return (floats + 3) / 8 * 8 + 4;
}

/// Floats from row to row: as many as are read, and so that eight rows begin in different banks.
constexpr std::int32_t plane_pitch(std::int32_t width, std::int32_t radius) {
  const std::int32_t read = width + kRun + 2 * radius / kRun * kRun;
  return (read + 3) / 8 * 8 + 4;
}

}  // namespace slipstream::augment
