#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/cuda.h"
#include "slipstream/core/region.h"

namespace slipstream::cuda {

/// A decoded image in device memory, and where its resized region goes.
struct ImageSource {
  const std::byte* pixels = nullptr;  ///< interleaved RGB, uint8
  std::int64_t row_bytes = 0;         ///< from one row to the next
  Region region;                      ///< lies in the image; at least one pixel
  std::size_t place = 0;              ///< which image of the batch it becomes
  bool flips_across = false;          ///< mirrored left and right, after it has been resized
  bool flips_down = false;
};

/// Device memory that resample_async() needs for `sources`, aligned to 256.
std::size_t resample_scratch_bytes(std::span<const ImageSource> sources, std::int64_t height,
                                   std::int64_t width);

/// Resizes the region of each source to height x width with the bits that Resize has on the host,
/// mirrors it and writes it to its place in the batch `to` (uint8, height x width x 3 each, without
/// gaps). Reads no pixel outside of the regions. Asynchronous on `stream`; three kernels for every
/// 64 sources. `scratch`: see above; its contents before and afterwards do not matter.
void resample_async(std::span<const ImageSource> sources, std::int64_t height, std::int64_t width,
                    std::byte* scratch, std::byte* to, StreamView stream);

}  // namespace slipstream::cuda
