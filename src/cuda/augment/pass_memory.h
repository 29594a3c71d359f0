#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/augment/statistics.h"
#include "slipstream/transforms/pixel.h"

namespace slipstream::augment {

enum class Stored : std::uint8_t { u8, f32, bf16 };

/// Device memory that one launch reads and writes: images without gaps.
struct PassMemory {
  const std::byte* images;
  const std::byte* drawn;
  std::byte* statistics;  ///< Statistics of all images for each step that needs them
  std::byte* to;
  std::int64_t batch_size;
  std::uint32_t drawn_bytes;       ///< a sample
  std::uint32_t statistics_bytes;  ///< an image
  Range range;                     ///< range of the input values
  Stored stored;
  bool is_planar;
};

/// Returns the Statistics of an image for the step with this index among those that need them.
SLIPSTREAM_HOST_DEVICE inline Statistics& image_statistics(const PassMemory& memory,
                                                           std::int64_t step, std::int64_t image) {
  return statistics_at(memory.statistics +
                       (step * memory.batch_size + image) * memory.statistics_bytes);
}

}  // namespace slipstream::augment
