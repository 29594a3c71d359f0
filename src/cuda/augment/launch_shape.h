#pragma once

#include <cstddef>
#include <cstdint>

namespace slipstream::augment {

/// How a pass computes a pixel before its stencil.
enum class Way : std::uint8_t {
  direct,  ///< without an interpolation
  linear,  ///< a resize without a filter
  warp,    ///< a bilinear warp
  filter,  ///< a resize with a filter
};

/// Capacity of a block's shared memory for pixels before the interpolation.
struct StageSpace {
  std::int32_t floats;   ///< floats for pixels
  std::int32_t pitch;    ///< distance between their rows, in floats; 0 if it differs by tile
  std::int32_t entries;  ///< entries of each axis
  std::int32_t taps;     ///< weights per entry of a filter
};

/// Source of one row or column of an interpolation's output.
struct alignas(8) AxisEntry {
  std::int32_t offset;  ///< offset of the first value, in bytes
  union {
    float weight;        ///< for Way::linear: weight of the second value
    std::int32_t count;  ///< for Way::filter: number of values
  };
};

/// Size of the entries of both axes with their weights, which come before the pixels.
constexpr std::uint32_t table_bytes(const StageSpace& room) {
  const std::uint32_t entry = sizeof(AxisEntry) + 4 * static_cast<std::uint32_t>(room.taps);
  return (2 * entry * static_cast<std::uint32_t>(room.entries) + 15) / 16 * 16;
}

/// The tiles of all images of a batch, one block each.
struct Grid {
  std::int32_t across;
  std::int32_t tiles;  ///< tiles per image
  std::int32_t width;  ///< width of a tile: a multiple of 32
  /// A multiple of kPatchHeight and of the rows stored at once.
  std::int32_t height;
};

/// How a pass is launched.
struct LaunchShape {
  Grid grid;
  StageSpace room;
  /// True if `room` suffices for all samples. Otherwise a block for which it is too small reads the
  /// source directly.
  bool always_fits;
  std::uint32_t stores_at;     ///< offset in shared memory, in bytes, of pixels that warps store
  std::uint32_t planes_at;     ///< offset of the planes of a stencil
  std::uint32_t shared_bytes;  ///< total size
};

inline constexpr int kPlainThreads = 256;
inline constexpr int kBlurThreads = 512;
/// Number of blocks of a blur that share a multiprocessor.
inline constexpr int kBlurBlocks = 2;
/// Number of values of a row that a thread of a blur filters at once, and of pixels of a column
/// that it then computes.
inline constexpr int kRun = 8;
inline constexpr int kRows = 8;

/// A warp computes the pixels of a patch at once. At any angle of a rotation, the values that they
/// read from shared memory are then seldom in the same bank.
inline constexpr int kPatchWidth = 4;
inline constexpr int kPatchHeight = 8;
/// Width of four adjacent patches, of which a thread computes one pixel each.
inline constexpr int kPatchesWidth = 4 * kPatchWidth;

/// Shared memory for the pixels that a warp stores, in bytes.
constexpr std::uint32_t store_bytes(std::int32_t channels) {
  return 32 * 16 * static_cast<std::uint32_t>(channels);
}

/// Distance between rows of adjacent patches that a warp stores, in values.
constexpr std::int32_t patches_pitch(std::int32_t channels) { return kPatchesWidth * channels + 4; }

/// Like store_bytes(), for patches.
constexpr std::uint32_t patches_bytes(std::int32_t channels) {
  return kPatchHeight * 4 * static_cast<std::uint32_t>(patches_pitch(channels));
}

/// Number of pixels before an interpolation that a thread reads at once.
inline constexpr int kTexels = 4;

/// Distance between rows of pixels before an interpolation, in floats: enough for runs of kTexels,
/// and an odd multiple of 4, so that few pixels of a patch are in the same bank.
constexpr std::int32_t texel_pitch(std::int32_t columns, std::int32_t channels) {
  const std::int32_t floats = (columns + kTexels - 1) / kTexels * kTexels * channels;
  return (floats + 3) / 8 * 8 + 4;
}

/// Distance between rows of a plane, in floats: enough for all values that are read, and such that
/// eight rows start in different banks.
constexpr std::int32_t plane_pitch(std::int32_t width, std::int32_t radius) {
  const std::int32_t read = width + kRun + 2 * radius / kRun * kRun;
  return (read + 3) / 8 * 8 + 4;
}

}  // namespace slipstream::augment
