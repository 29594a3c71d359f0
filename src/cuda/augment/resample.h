#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/cuda.h"
#include "slipstream/core/region.h"

namespace slipstream::cuda {

/// A decoded image in device memory, and the destination of its resized region.
struct ImageSource {
  const std::byte* pixels = nullptr;  ///< interleaved RGB, uint8
  std::int64_t row_bytes = 0;         ///< distance between rows, in bytes
  Region region;                      ///< inside the image; at least one pixel
  std::size_t place = 0;              ///< index of the output image in the batch
  bool flips_across = false;          ///< flipped left and right after resizing
  bool flips_down = false;
};

/// Number of bytes of device memory, aligned to 256, that resample_async() needs for `sources`.
std::size_t resample_scratch_bytes(std::span<const ImageSource> sources, std::int64_t height,
                                   std::int64_t width);

/// Resizes the region of each source to height x width with the bits of Resize on the host, flips
/// it and writes it to its index in the batch `to` (uint8, height x width x 3 each, without gaps).
/// Reads no pixel outside of the regions. Asynchronous on `stream`; three kernels for every 64
/// sources. `scratch` has resample_scratch_bytes() bytes; its content is undefined before and
/// after.
void resample_async(std::span<const ImageSource> sources, std::int64_t height, std::int64_t width,
                    std::byte* scratch, std::byte* to, StreamView stream);

}  // namespace slipstream::cuda
