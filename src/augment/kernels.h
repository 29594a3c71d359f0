#pragma once

#include <cstddef>
#include <cstdint>

#include "augment/program.h"
#include "slipstream/augment.h"

namespace slipstream::augment {

enum class Stored : std::uint8_t { u8, f32, bf16 };

/// What one launch reads and writes, on the device: images without gaps.
struct PassMemory {
  const std::byte* images;
  Range range;  ///< of their values
  const std::byte* drawn;
  std::uint32_t drawn_bytes;  ///< a sample
  std::byte* to;
  Stored stored;
  ImageLayout layout;
};

void launch_images(const PassProgram& pass, const PassMemory& memory, std::size_t batch_size,
                   std::int32_t channels, cudaStream_t stream);
/// Masks whose values take so many bytes.
void launch_masks(const PassProgram& pass, const PassMemory& memory, std::size_t batch_size,
                  std::size_t value_bytes, cudaStream_t stream);

}  // namespace slipstream::augment
