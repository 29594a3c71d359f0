#pragma once

#include <cstddef>
#include <cstdint>

#include "slipstream/transforms/pixel.h"

namespace slipstream::augment {

enum class Stored : std::uint8_t { u8, f32, bf16 };

/// Device memory that one launch reads and writes: images without gaps.
struct PassMemory {
  const std::byte* images;
  const std::byte* drawn;
  std::int64_t* sums;  ///< sums for all images of each contrast
  std::byte* to;
  std::int64_t batch_size;
  std::uint32_t drawn_bytes;  ///< a sample
  Range range;                ///< range of the input values
  Stored stored;
  bool is_planar;
};

}  // namespace slipstream::augment
